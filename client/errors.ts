/** What a master answered, or why it could not be asked. */
export class RemoteError extends Error {
  /** The master's code; `ERR_SOCKET` when no master could be reached. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}
