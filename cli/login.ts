/**
 * Determines whose rights a command has: those of the account that runs it, or those of a user who
 * logs in [salt/cli/salt.py].
 */
import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { servedEauths } from '#config';
import type { MasterApi, RunRequest, UserApi } from '#master';
import { CommandError, errorCodeOf } from './errors.ts';
import type { LocalMaster } from './local-master.ts';
import { eauthOf, type LoginOptions } from './login-options.ts';

const tokenPattern = /^[0-9a-f]{64}$/;

/**
 * Reads the user's token from a file that only its owner can read. Returns `undefined` if there is
 * no such file.
 */
async function readTokenFile(file: string): Promise<string | undefined> {
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) return undefined;
    const token = (await readFile(file, 'utf8')).trim();
    return tokenPattern.test(token) ? token : undefined;
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes a token to a new file with mode 0600. An existing file or link is replaced. */
async function writeTokenFile(file: string, token: string): Promise<void> {
  const fresh = `${file}.${randomBytes(8).toString('hex')}`;
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await handle.writeFile(`${token}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, file).catch(async (error: unknown) => {
    await rm(fresh, { force: true });
    throw error;
  });
}

/**
 * Returns `{ user: 'sudo_NAME' }` with the user who called sudo, for the record of the job and for
 * `sudo_acl`. Without sudo, returns an empty object, and the master itself identifies the user.
 */
export function sudoUser(): Pick<RunRequest, 'user'> {
  const { SUDO_USER: name } = process.env;
  return name === undefined ? {} : { user: `sudo_${name}` };
}

/** Parts of the environment that a login uses. */
export interface LoginContext extends Pick<LocalMaster, 'openApi'> {
  /** Asks a question and returns the answer. `undefined` if there is no terminal. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /**
   * Asks a question without showing the answer on the terminal. `undefined` if there is no
   * terminal.
   */
  readonly askSecret: ((question: string) => Promise<string>) | undefined;
  /** Path of the file in which the user's token is stored. */
  readonly tokenFile: string;
}

/** Connection to the master during one command, with the rights of its user. */
export interface CommandSession {
  readonly jobs: MasterApi['jobs'];
  readonly runners: MasterApi['runners'];
  readonly wheel: UserApi['wheel'];
  /** Ends all calls of the command. Must be called after success and after failure. */
  close(): Promise<void>;
}

/** Error for a rejected log-in. Salt's commands print it as a result. */
export class LoginFailure extends CommandError {
  readonly eauth: string;
  readonly username: string;
  /**
   * Names of the eauth back ends that the master supports. Set only if the requested back end is
   * not one of them.
   */
  readonly served: readonly string[] | undefined;

  constructor(eauth: string, username: string, cause: Error) {
    super('ERR_EAUTH', cause.message, { cause });
    this.eauth = eauth;
    this.username = username;
    this.served = servedEauths.includes(eauth) ? undefined : servedEauths;
  }
}

/**
 * Opens the interface of the master. With `-a`, the interface has the rights of a user. It uses the
 * stored token if the token is valid and no user name or password is given. Otherwise the user logs
 * in.
 * @throws CommandError ERR_ARGS; LoginFailure ERR_EAUTH; RemoteError
 */
export async function openCommandSession(
  context: LoginContext,
  options: LoginOptions,
): Promise<CommandSession> {
  const api = await context.openApi(options.configDir);
  const eauth = eauthOf(options);
  if (eauth === undefined) {
    const { jobs, runners, wheel } = api;
    if (options.makeToken !== true) return { jobs, runners, wheel, close: async () => {} };
    throw new CommandError('ERR_ARGS', '-T requires -a with the name of the eauth back end');
  }
  const kept = await findSavedToken(api, eauth, context, options);
  if (kept !== undefined) return createUserSession(api, kept, async () => {});
  const { token } = await logIn(api, eauth, await askCredentials(context, options));
  if (options.makeToken === true) {
    await writeTokenFile(context.tokenFile, token);
    return createUserSession(api, token, async () => {});
  }
  return createUserSession(api, token, async () => {
    await api.logins.logout(token);
  });
}

/**
 * Logs a user in.
 * @throws LoginFailure ERR_EAUTH; RemoteError
 */
async function logIn(
  { logins }: MasterApi,
  eauth: string,
  credentials: { readonly username: string; readonly password: string },
): ReturnType<MasterApi['logins']['login']> {
  try {
    return await logins.login({ eauth, ...credentials });
  } catch (error) {
    if (!(error instanceof Error) || errorCodeOf(error) !== 'ERR_EAUTH') throw error;
    throw new LoginFailure(eauth, credentials.username, error);
  }
}

/**
 * Returns the stored token if it is valid for this eauth back end, otherwise `undefined`. Also
 * returns `undefined` if the options contain a user name or a password, or request a new token.
 */
async function findSavedToken(
  api: MasterApi,
  eauth: string,
  { tokenFile }: LoginContext,
  { makeToken, username, password }: LoginOptions,
): Promise<string | undefined> {
  if (makeToken === true || username !== undefined || password !== undefined) return undefined;
  const token = await readTokenFile(tokenFile);
  if (token === undefined) return undefined;
  try {
    return (await api.logins.identify(token)).eauth === eauth ? token : undefined;
  } catch (error) {
    if (errorCodeOf(error) === 'ERR_EAUTH_TOKEN') return undefined;
    throw error;
  }
}

async function askCredentials(
  { ask, askSecret }: LoginContext,
  options: LoginOptions,
): Promise<{ readonly username: string; readonly password: string }> {
  const username = options.username ?? (await ask?.('username: '));
  const password = options.password ?? (await askSecret?.('password: '));
  if (username !== undefined && password !== undefined) return { username, password };
  throw new CommandError('ERR_ARGS', '--username and --password are required without a terminal');
}

function createUserSession(
  api: MasterApi,
  token: string,
  close: () => Promise<void>,
): CommandSession {
  const { jobs, runners, wheel } = api.asUser(token);
  return { jobs: { ...api.jobs, ...jobs }, runners: { ...api.runners, ...runners }, wheel, close };
}
