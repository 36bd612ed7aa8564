export type CommandErrorCode =
  | 'ERR_ARGS'
  | 'ERR_FILE_EXISTS'
  | 'ERR_KEY_NO_MATCH'
  | 'ERR_MASTER_NOT_READY'
  | 'ERR_NOT_CONFIRMED';

/** A command cannot do what it was asked for. The message is for whoever typed it. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;

  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}
