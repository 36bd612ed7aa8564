import type { ErrorEntry } from '../master/index.ts';

export type CommandErrorCode =
  | 'ERR_ARGS'
  | 'ERR_COMPOUND'
  | 'ERR_FILE_EXISTS'
  | 'ERR_KEY_NO_MATCH'
  | 'ERR_MASTER_NOT_READY'
  | 'ERR_NOT_CONFIRMED'
  | 'ERR_TENANT'
  | 'ERR_TENANTS'
  | 'ERR_USER';

/** A command cannot do what it was asked for. The message is for whoever typed it. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;

  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** What each code means to the person who meets it. */
export const commandErrors: Readonly<Record<Exclude<CommandErrorCode, 'ERR_ARGS'>, ErrorEntry>> = {
  ERR_COMPOUND: {
    meaning: 'Several functions were asked for, with another number of argument lists.',
    action: 'Put the separator, a comma, once between the arguments of each two functions.',
    retry: false,
  },
  ERR_FILE_EXISTS: {
    meaning: 'A key file of that name is there already.',
    action: 'Choose another name or folder; nothing is replaced.',
    retry: false,
  },
  ERR_KEY_NO_MATCH: {
    meaning: 'No key matches in the states that were looked at.',
    action: 'Look at the list of keys, and at the options that include other states.',
    retry: true,
  },
  ERR_MASTER_NOT_READY: {
    meaning: 'A master that was started in the background did not come up.',
    action: 'Read its log file, or start it in the foreground.',
    retry: false,
  },
  ERR_NOT_CONFIRMED: {
    meaning: 'Nobody confirmed the change of a key.',
    action: 'Answer yes, or say -y beforehand.',
    retry: true,
  },
  ERR_TENANT: {
    meaning: 'One of several tenants could not start, and so none did.',
    action: 'Mend what the message says of it; its own log file has it too.',
    retry: true,
  },
  ERR_TENANTS: {
    meaning: 'The configuration is that of several tenants, and the command is for one master.',
    action: "Name a tenant's own directory, which the message has, with -c.",
    retry: false,
  },
  ERR_USER: {
    meaning: "The configuration's user has no account here, or may not use the master's folders.",
    action: 'Correct user, or give the folder that the message names to that user.',
    retry: false,
  },
};
