/** Who a command acts as: the master's own user, or one who logs in [salt/cli/salt.py]. */
import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { servedEauths } from '#config';
import type { MasterApi, RunRequest, UserApi } from '#master';
import { CommandError, errorCodeOf } from './errors.ts';
import type { LocalMaster } from './local-master.ts';
import { eauthOf, type LoginOptions } from './login-options.ts';

const tokenPattern = /^[0-9a-f]{64}$/;

/** The token in a file that only its owner can read; `undefined` if there is none such. */
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

/** Writes it anew, 0600 from the first byte on; a file or link that is there is replaced. */
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

/** Who came by sudo is told, for the job's user and `sudo_acl`; anybody else is known to the master. */
export function sudoUser(): Pick<RunRequest, 'user'> {
  const { SUDO_USER: name } = process.env;
  return name === undefined ? {} : { user: `sudo_${name}` };
}

/** How a person at the command line is known and asked. */
export interface LoginContext extends Pick<LocalMaster, 'openApi'> {
  /** Asks a person; `undefined` where there is none. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /** The same, and shows nothing of the answer. */
  readonly askSecret: ((question: string) => Promise<string>) | undefined;
  /** Where the token of whoever uses the command line is kept. */
  readonly tokenFile: string;
}

/** What a command may use. */
export interface CommandSession {
  readonly jobs: MasterApi['jobs'];
  readonly runners: MasterApi['runners'];
  readonly wheel: UserApi['wheel'];
  /** Ends what the command began; call it in any case. */
  close(): Promise<void>;
}

/** A log-in that was refused. Salt's commands print it as a result. */
export class LoginFailure extends CommandError {
  readonly eauth: string;
  readonly username: string;
  /** Names of the back ends that there are; `undefined` if `eauth` is one of them. */
  readonly served: readonly string[] | undefined;

  constructor(eauth: string, username: string, cause: Error) {
    super('ERR_EAUTH', cause.message, { cause });
    this.eauth = eauth;
    this.username = username;
    this.served = servedEauths.includes(eauth) ? undefined : servedEauths;
  }
}

/**
 * The master's interface, or with `-a` that of a user: by the token that was kept, unless a user
 * or a password is named, else by logging in.
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
    throw new CommandError('ERR_ARGS', '-T needs -a: by which eauth to log in');
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

/** @throws LoginFailure ERR_EAUTH; RemoteError */
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

/** The token of the file, if it is good for this. */
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
  throw new CommandError(
    'ERR_ARGS',
    '--username and --password are needed: there is nobody to ask',
  );
}

function createUserSession(
  api: MasterApi,
  token: string,
  close: () => Promise<void>,
): CommandSession {
  const { jobs, runners, wheel } = api.asUser(token);
  return { jobs: { ...api.jobs, ...jobs }, runners: { ...api.runners, ...runners }, wheel, close };
}
