// Keeps the end in view while an answer grows, unless the user has scrolled up.

const NEAR = 60;

export class Scroll {
  constructor(main, button) {
    Object.assign(this, { main, button, list: main.querySelector("ol"), isStuck: true });
    main.addEventListener("scroll", () => {
      // Only a person scrolls away from the end; when the page grows, the end moves away by itself.
      if (main.scrollTop < this.top - 2) this.isStuck = false;
      if (this.isAtEnd) this.isStuck = true;
      this.top = main.scrollTop;
      this.show();
    }, { passive: true });
    new ResizeObserver(() => this.follow()).observe(this.list);
    button.addEventListener("click", () => this.stick());
  }

  get isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.main;
    return scrollHeight - scrollTop - clientHeight < NEAR;
  }

  /** Go to the end, and stay there. */
  stick() {
    this.isStuck = true;
    this.follow();
  }

  follow() {
    // A conversation without messages shows its beginning, which says what to do.
    if (this.isStuck) this.main.scrollTop = this.list.childElementCount ? this.main.scrollHeight : 0;
    this.top = this.main.scrollTop;
    this.show();
  }

  show() {
    this.button.hidden = this.isStuck || this.isAtEnd;
  }
}
