/**
 * Log-in backend for users of an LDAP directory, configured by Salt's options `auth.ldap.…`
 * [salt/auth/ldap.py].
 */

import type { Client, Entry } from 'ldapts';
import type { EauthOptions } from '#config';
import { loadOptionalPackage } from '#runtime';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { connectLdap, connectLdaps } from './ldap-answers.ts';
import { findGroups, firstValue, valuesOf } from './ldap-groups.ts';
import { attributesOfFilter, fillFilter, fillName } from './ldap-names.ts';

const timeoutMs = 5000;

/** Attributes that mark a locked account in different directories. */
const lockAttributes = ['userAccountControl', 'nsAccountLock', 'pwdAccountLockedTime'];

const scopes = ['base', 'one', 'sub'] as const;

export function createLdapBackend(options: EauthOptions): LoginBackend {
  const searches = options.ldapAnonymous || options.ldapBindpw !== null;
  const backend: LoginBackend = {
    name: 'ldap',
    authenticate: ({ username, password }) =>
      connected(options, async (client) => {
        const found = searches ? await findUser(client, username, options) : undefined;
        const dn = searches ? found?.dn : fillName(options.ldapBinddn ?? '', username);
        // An empty password is rejected, because servers would treat the bind as anonymous and
        // accept it [RFC 4513 5.1.2].
        if (dn === undefined || password === '') return undefined;
        if (!(await binds(client, dn, password))) return undefined;
        const user = searches ? found?.name : await ownName(client);
        if (user === undefined) return undefined;
        if (searches) await bindForSearch(client, options);
        return { user, groups: await findGroups(client, user, options) };
      }),
  };
  if (!searches) return backend;
  return {
    ...backend,
    standingOf: ({ user }) =>
      connected(options, async (client) => {
        const found = await findUser(client, user, options);
        if (found?.name !== user) return { state: 'gone' };
        return { state: 'valid', groups: await findGroups(client, user, options) };
      }),
  };
}

/**
 * Account in the directory. Its name is spelled as in the directory. Directories ignore the case of
 * names, so the user may have typed it differently.
 */
interface FoundUser {
  readonly dn: string;
  readonly name: string;
}

/**
 * Finds the account of a user who may log in. The search must find exactly one account, and the
 * account must have a unique name. Otherwise returns `undefined`.
 */
async function findUser(
  client: Client,
  username: string,
  options: EauthOptions,
): Promise<FoundUser | undefined> {
  await bindForSearch(client, options);
  const filter = options.ldapFilter ?? '';
  const naming = [...attributesOfFilter(filter), options.ldapAccountAttribute];
  const { searchEntries } = await client.search(options.ldapBasedn, {
    scope: scopes[options.ldapScope] ?? 'sub',
    filter: fillFilter(filter, username),
    attributes: [...naming, ...lockAttributes],
    sizeLimit: 3,
  });
  const [entry, ...more] = searchEntries;
  if (entry === undefined || more.length > 0 || isLocked(entry)) return undefined;
  const name = nameOf(entry, naming);
  return name === undefined ? undefined : { dn: entry.dn, name };
}

/**
 * Returns the user name of an account: the value of the first attribute in `attributes` that the
 * account has. If this attribute has several values, returns the value in the account's
 * distinguished name. Returns `undefined` if the distinguished name does not begin with this
 * attribute.
 */
function nameOf(entry: Entry, attributes: readonly string[]): string | undefined {
  for (const attribute of attributes) {
    const [value, ...others] = valuesOf(entry, attribute);
    if (value === undefined) continue;
    if (others.length === 0) return value;
    const isInDn = entry.dn.toLowerCase().startsWith(`${attribute.toLowerCase()}=`);
    return isInDn ? firstValue(entry.dn) : undefined;
  }
  return undefined;
}

/**
 * Asks the directory for the name of the authenticated account, in the directory's spelling, with
 * the operation "Who am I?" [RFC 4532].
 */
async function ownName(client: Client): Promise<string | undefined> {
  const { value = '' } = await client.exop('1.3.6.1.4.1.4203.1.11.3');
  if (value.startsWith('dn:')) return firstValue(value.slice('dn:'.length)) || undefined;
  // Active Directory returns names in the form u:DOMAIN\\name.
  return /^u:(?:[^\\]*\\)?(.+)$/s.exec(value)?.[1];
}

function isLocked(entry: Entry): boolean {
  const [control, lock, lockedAt] = lockAttributes.map((name) => String(entry[name] ?? ''));
  // Bit 2 of `userAccountControl` is ADS_UF_ACCOUNTDISABLE: the account is disabled.
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

/**
 * Opens a connection to the directory, calls `work` with it, and closes it.
 * @throws AuthenticationError ERR_EAUTH_UNAVAILABLE
 */
async function connected<T>(
  options: EauthOptions,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const tlsOptions = { rejectUnauthorized: !options.ldapNoVerify };
  const url = urlOf(options);
  // The package is loaded on demand, because few masters use an LDAP directory.
  const { Client } = await loadOptionalPackage('ldapts', 'eauth ldap', () => import('ldapts'));
  const client = new Client({
    url,
    timeout: timeoutMs,
    connectTimeout: timeoutMs,
    strictDN: false,
    createConnection: connectLdap,
    createSecureConnection: connectLdaps,
    ...(url.startsWith('ldaps:') ? { tlsOptions } : {}),
  });
  try {
    if (options.ldapStarttls) await client.startTLS(tlsOptions);
    return await work(client);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.name : 'unknown';
    const text = `the LDAP server is unavailable (${reason})`;
    throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text, { cause });
  } finally {
    await client.unbind().catch(() => {
      // The connection has already ended.
    });
  }
}

function urlOf({ ldapUri, ldapTls, ldapServer, ldapPort }: EauthOptions): string {
  return ldapUri ?? `${ldapTls ? 'ldaps' : 'ldap'}://${ldapServer}:${ldapPort}`;
}
