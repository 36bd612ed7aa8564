/** The options of Salt's commands with which somebody acts as a user [salt utils/parsers.py EAuthMixIn]. */
import { type Command, Option } from 'commander';

/** As commander names them. */
export interface LoginOptions {
  readonly configDir: string;
  readonly auth?: string;
  /** Salt's other names for it. */
  readonly eauth?: string;
  readonly externalAuth?: string;
  readonly makeToken?: boolean;
  readonly username?: string;
  readonly password?: string;
}

/** Adds them. */
export function addLoginOptions(command: Command): Command {
  return command
    .option('-a, --auth <eauth>', 'act as a user of this eauth, with their rights')
    .addOption(new Option('--eauth <eauth>').hideHelp())
    .addOption(new Option('--external-auth <eauth>').hideHelp())
    .option('-T, --make-token', 'log in, and keep the token for the next time')
    .option('--username <name>', 'of the user; asked for if it is not given')
    .option('--password <text>', 'the same; others see it in the list of processes');
}
