import type { Command } from 'commander';
import type { MasterApi, TokenInfo } from '#master';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import { withCommonOptions } from '../options.ts';
import { escapeName, printList } from '../terminal.ts';

interface TokenOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface RevokeOptions extends TokenOptions {
  readonly user?: string;
  readonly eauth?: string;
  readonly all?: boolean;
}

/** Defines `saltbridge token`, which lists and revokes tokens of users. */
export function defineToken(command: Command, context: CommandContext): void {
  addList(command, context);
  addRevoke(command, context);
}

function addList(token: Command, context: CommandContext): void {
  withCommonOptions(
    token
      .command('list')
      .description('list valid tokens by their ids, which cannot be used to log in'),
  ).action(async ({ configDir, json }: TokenOptions) => {
    const { logins } = await context.openApi(configDir);
    await printList(context, await logins.list(), {
      json,
      format: formatToken,
      none: 'No tokens.',
    });
  });
}

function addRevoke(token: Command, context: CommandContext): void {
  withCommonOptions(
    token
      .command('revoke')
      .description('revoke tokens')
      .argument('[id]', 'id of the token, as printed by list')
      .option('--user <name>', 'revoke all tokens of this user')
      .option('--eauth <name>', 'revoke all tokens of this eauth back end')
      .option('--all', 'revoke all tokens'),
  ).action(async (id: string | undefined, options: RevokeOptions) => {
    const selection = toTokenSelection(id, options);
    const { logins } = await context.openApi(options.configDir);
    const ended = await logins.revoke(selection);
    const none = 'No token was revoked.';
    await printList(context, ended, { json: options.json, format: formatToken, none });
    if (ended.length === 0) context.setExitCode(exitCodes.failure);
  });
}

function toTokenSelection(
  id: string | undefined,
  { user, eauth, all }: Pick<RevokeOptions, 'all' | 'eauth' | 'user'>,
): Parameters<MasterApi['logins']['revoke']>[0] {
  const isNamed = [id, user, eauth].some((it) => it !== undefined);
  if (isNamed === (all === true)) {
    throw new CommandError('ERR_ARGS', 'give the id of a token, or add --user, --eauth or --all');
  }
  return {
    ...(id === undefined ? {} : { id }),
    ...(user === undefined ? {} : { user }),
    ...(eauth === undefined ? {} : { eauth }),
  };
}

function formatToken({ id, user, eauth, groups, expire }: TokenInfo): string {
  const whose = [eauth, user, ...groups.map((group) => `${group}%`)].map(escapeName).join(' ');
  return `${id} until ${new Date(expire).toISOString()} ${whose}`;
}
