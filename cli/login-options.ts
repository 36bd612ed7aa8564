/**
 * Login options of the commands `salt`, `salt-key`, `salt-run` and `salt-cp` [salt utils/parsers.py
 * EAuthMixIn].
 */

import { type Command, Option } from 'commander';

/** Options for logging in, with commander's names. */
export interface LoginOptions {
  readonly configDir: string;
  readonly auth?: string;
  /** Other names that Salt has for the option `auth`. */
  readonly eauth?: string;
  readonly externalAuth?: string;
  readonly makeToken?: boolean;
  readonly username?: string;
  readonly password?: string;
}

/**
 * Returns the name of the eauth back end. If it is `undefined`, the command does not log in, and
 * has the rights of the account that runs it.
 */
export function eauthOf({ auth, eauth, externalAuth }: LoginOptions): string | undefined {
  return auth ?? eauth ?? externalAuth;
}

/**
 * Adds the login options to a command.
 * @param flags - flags of the option `auth`; commands in which `-a` has another meaning pass only
 * `--auth`
 */
export function addLoginOptions(command: Command, flags = '-a, --auth'): Command {
  return command
    .option(
      `${flags} <eauth>`,
      'log in with this eauth back end; the command then has the rights of the user',
    )
    .addOption(new Option('--eauth <eauth>').hideHelp())
    .addOption(new Option('--external-auth <eauth>').hideHelp())
    .option('-T, --make-token', 'log in, and store the token for later commands with -T')
    .option('--username <name>', 'name of the user (default: ask for it)')
    .option(
      '--password <text>',
      'password of the user; visible in the process list (default: ask for it)',
    );
}
