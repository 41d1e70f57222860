// workerd alone has no mail; the agents package asks for the class when it is loaded.
export class EmailMessage {}
