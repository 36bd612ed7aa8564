/** Who a command acts as: the master's own user, or one who logs in [salt/cli/salt.py]. */
import type { FunctionsApi, JobsApi, MasterApi } from '../master/index.ts';
import type { CommandContext } from './context.ts';
import { codeOf } from './error-code.ts';
import { CommandError } from './errors.ts';
import type { LoginOptions } from './login-options.ts';
import { readTokenFile, writeTokenFile } from './token-file.ts';

/** What a command may use. */
export interface CommandSession {
  readonly jobs: JobsApi;
  readonly runners: FunctionsApi;
  /** Ends what the command began; call it in any case. */
  close(): Promise<void>;
}

/**
 * The master's interface, or with `-a` that of a user: by the token that was kept, unless a user
 * or a password is named, else by logging in.
 * @throws CommandError ERR_ARGS; RemoteError, ERR_EAUTH among others
 */
export async function openSession(
  context: CommandContext,
  options: LoginOptions,
): Promise<CommandSession> {
  const api = await context.openApi(options.configDir);
  const eauth = options.auth ?? options.eauth ?? options.externalAuth;
  if (eauth === undefined) {
    if (options.makeToken !== true)
      return { jobs: api.jobs, runners: api.runners, close: async () => {} };
    throw new CommandError('ERR_ARGS', '-T needs -a: by which eauth to log in');
  }
  const kept = await keptToken(api, eauth, context, options);
  if (kept !== undefined) return sessionOf(api, kept, async () => {});
  const { token } = await api.logins.login({ eauth, ...(await askCredentials(context, options)) });
  if (options.makeToken === true) {
    await writeTokenFile(context.tokenFile, token);
    return sessionOf(api, token, async () => {});
  }
  return sessionOf(api, token, async () => {
    await api.logins.logout(token);
  });
}

/** The token of the file, if it is good for this. */
async function keptToken(
  api: MasterApi,
  eauth: string,
  { tokenFile }: CommandContext,
  { makeToken, username, password }: LoginOptions,
): Promise<string | undefined> {
  if (makeToken === true || username !== undefined || password !== undefined) return undefined;
  const token = await readTokenFile(tokenFile);
  if (token === undefined) return undefined;
  try {
    return (await api.logins.identify(token)).eauth === eauth ? token : undefined;
  } catch (error) {
    if (codeOf(error) === 'ERR_EAUTH_TOKEN') return undefined;
    throw error;
  }
}

async function askCredentials(
  { ask, askSecret }: CommandContext,
  options: LoginOptions,
): Promise<{ readonly username: string; readonly password: string }> {
  const username = options.username ?? (await ask?.('username: '));
  const password = options.password ?? (await askSecret?.('password: '));
  if (username !== undefined && password !== undefined) return { username, password };
  throw new CommandError(
    'ERR_ARGS',
    '--username and --password are needed: there is nobody to ask',
  );
}

function sessionOf(api: MasterApi, token: string, close: () => Promise<void>): CommandSession {
  const { jobs, runners } = api.asUser(token);
  return { jobs: { ...api.jobs, ...jobs }, runners: { ...api.runners, ...runners }, close };
}
