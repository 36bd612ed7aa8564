/** Users of a directory, by Salt's `auth.ldap.…` options [salt/auth/ldap.py]. */
import type { Client, Entry } from 'ldapts';
import type { EauthOptions } from '../config/eauth-options.ts';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { findGroups } from './ldap-groups.ts';
import { fillFilter, fillName } from './ldap-text.ts';

const timeoutMs = 5000;

/** What says in one directory or another that somebody may not log in. */
const lockAttributes = ['userAccountControl', 'nsAccountLock', 'pwdAccountLockedTime'];

const scopes = ['base', 'one', 'sub'] as const;

export function createLdapBackend(options: EauthOptions): LoginBackend {
  const searches = options.ldapAnonymous || options.ldapBindpw !== null;
  const backend: LoginBackend = {
    name: 'ldap',
    authenticate: ({ username, password }) =>
      connected(options, async (client) => {
        const user = searches
          ? await findUser(client, username, options)
          : fillName(options.ldapBinddn ?? '', username);
        // Without a password a server lets in anybody, as nobody [RFC 4513 5.1.2].
        if (user === undefined || password === '') return undefined;
        if (!(await binds(client, user, password))) return undefined;
        if (searches) await bindForSearch(client, options);
        return { user: username, groups: await findGroups(client, username, options) };
      }),
  };
  if (!searches) return backend;
  return {
    ...backend,
    standingOf: ({ user }) =>
      connected(options, async (client) => {
        if ((await findUser(client, user, options)) === undefined) return { state: 'gone' };
        return { state: 'valid', groups: await findGroups(client, user, options) };
      }),
  };
}

/** The distinguished name of a user that may log in; `undefined` where it is not exactly one. */
async function findUser(
  client: Client,
  username: string,
  options: EauthOptions,
): Promise<string | undefined> {
  await bindForSearch(client, options);
  const { searchEntries } = await client.search(options.ldapBasedn, {
    scope: scopes[options.ldapScope] ?? 'sub',
    filter: fillFilter(options.ldapFilter ?? '', username),
    attributes: ['1.1', ...lockAttributes],
    sizeLimit: 3,
  });
  const [entry, ...more] = searchEntries;
  return entry === undefined || more.length > 0 || isLocked(entry) ? undefined : entry.dn;
}

function isLocked(entry: Entry): boolean {
  const [control, lock, lockedAt] = lockAttributes.map((name) => String(entry[name] ?? ''));
  // Bit 2: ADS_UF_ACCOUNTDISABLE.
  return (Number(control) & 2) !== 0 || lock?.toLowerCase() === 'true' || lockedAt !== '';
}

async function bindForSearch(client: Client, options: EauthOptions): Promise<void> {
  const { ldapBinddn, ldapBindpw } = options;
  if (ldapBinddn !== null && ldapBindpw !== null) await client.bind(ldapBinddn, ldapBindpw);
  else await client.bind('', '');
}

async function binds(client: Client, name: string, password: string): Promise<boolean> {
  try {
    await client.bind(name, password);
    return true;
  } catch (error) {
    const { InvalidCredentialsError } = await import('ldapts');
    if (error instanceof InvalidCredentialsError) return false;
    throw error;
  }
}

/** Does the work over a connection of its own. @throws AuthenticationError ERR_EAUTH_UNAVAILABLE */
async function connected<T>(
  options: EauthOptions,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const tlsOptions = { rejectUnauthorized: !options.ldapNoVerify };
  const url = urlOf(options);
  // Loaded where it is needed: few masters have a directory.
  const { Client } = await import('ldapts');
  const client = new Client({
    url,
    timeout: timeoutMs,
    connectTimeout: timeoutMs,
    strictDN: false,
    ...(url.startsWith('ldaps:') ? { tlsOptions } : {}),
  });
  try {
    if (options.ldapStarttls) await client.startTLS(tlsOptions);
    return await work(client);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.name : 'unknown';
    const text = `the LDAP server cannot be asked (${reason})`;
    throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text, { cause });
  } finally {
    await client.unbind().catch(() => {
      // It was gone already.
    });
  }
}

function urlOf({ ldapUri, ldapTls, ldapServer, ldapPort }: EauthOptions): string {
  return ldapUri ?? `${ldapTls ? 'ldaps' : 'ldap'}://${ldapServer}:${ldapPort}`;
}
