// Stays at the end while an answer grows, unless somebody scrolled up to read.

const NEAR = 60;

export class Scroll {
  constructor(main, button) {
    Object.assign(this, { main, button, isStuck: true });
    main.addEventListener("scroll", () => {
      // Only a person scrolls away from the end; when the page grows, the end moves away by itself.
      if (main.scrollTop < this.top - 2) this.isStuck = false;
      if (this.isAtEnd) this.isStuck = true;
      this.top = main.scrollTop;
      this.show();
    }, { passive: true });
    new ResizeObserver(() => this.follow()).observe(main.querySelector("ol"));
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
    if (this.isStuck) this.main.scrollTop = this.main.scrollHeight;
    this.top = this.main.scrollTop;
    this.show();
  }

  show() {
    this.button.hidden = this.isStuck || this.isAtEnd;
  }
}
