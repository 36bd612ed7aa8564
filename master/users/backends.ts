/** The back ends that may stand under `external_auth`: a closed table. */

import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import {
  type BackendSettings,
  type FileBackendSettings,
  type ReloadableConfig,
  readBackend,
} from '#config';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { createJwtBackend } from './jwt.ts';
import { createKeystoneBackend } from './keystone.ts';
import { createLdapBackend } from './ldap.ts';
import { createPamBackend } from './pam.ts';
import {
  costliestPassword,
  isDisabled,
  isPassword,
  isSameText,
  isUnread,
  type PasswordForm,
} from './password-hashes.ts';

/** Lets in everybody as whoever they say: for tests [salt/auth/auto.py]. */
function createAutoBackend(): LoginBackend {
  return {
    name: 'auto',
    authenticate: async ({ username }) => ({ user: username, groups: [] }),
  };
}

// Users of a file [salt/auth/file.py], which is read for each check.

const maxFileBytes = 16 * 1024 * 1024;

/** Stands in for an unknown user's where the file has none. */
const nobodysPassword = '{SHA}';

function createFileBackend(settings: FileBackendSettings): LoginBackend {
  const form = formOf(settings);
  const find = async (user: string): Promise<string | undefined> =>
    passwordsOf(await readUsers(settings.filename), settings).get(user);
  return {
    name: 'file',
    authenticate: async ({ username, password }) => {
      const passwords = passwordsOf(await readUsers(settings.filename), settings);
      const kept = passwords.get(username);
      const given = { user: username, realm: settings.realm, password };
      // Comparing takes what it takes for the user whose password takes longest.
      // protection: unknown-users-are-compared
      const compared = kept ?? costliestPassword([...passwords.values()]) ?? nobodysPassword;
      const isRight = await isPassword(given, compared, form);
      return isRight && kept !== undefined ? { user: username, groups: [] } : undefined;
    },
    standingOf: async ({ user }) => {
      const kept = await find(user);
      const isThere = kept !== undefined && !isDisabled(kept, form);
      return isThere ? { state: 'valid', groups: [] } : { state: 'gone' };
    },
    obstacle: async () => {
      try {
        const lines = (await readUsers(settings.filename)).split('\n');
        const unread = lines.filter((line) => isUnread(line.trim().split(':')[1] ?? '', form));
        return unread.length === 0 ? undefined : `${unread.length} ${unreadForms}`;
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      }
    },
  };
}

const unreadForms =
  'users have a password in a form that is not read (DES, bcrypt of a cost above 14) and cannot log in; ' +
  'set it anew with htpasswd -5 (SHA-512) or htpasswd -m';

function formOf({ filetype, hashtype }: FileBackendSettings): PasswordForm {
  return filetype === 'text' ? hashtype : filetype;
}

/** What stands for each user's password; the first line that has the name counts. */
function passwordsOf(text: string, settings: FileBackendSettings): ReadonlyMap<string, string> {
  const { filetype, fieldSeparator, usernameField, passwordField, realm } = settings;
  const passwords = new Map<string, string>();
  const add = (name: string | undefined, password: string | undefined): void => {
    if (name !== undefined && !passwords.has(name)) passwords.set(name, password ?? '');
  };
  for (const line of text.split('\n')) {
    const trimmed = line.trim();
    if (filetype === 'text') {
      const fields = trimmed.split(fieldSeparator);
      add(fields[usernameField - 1], fields[passwordField - 1]);
      continue;
    }
    if (trimmed.startsWith('#')) continue;
    const [name, second = '', ...rest] = trimmed.split(':');
    if (filetype === 'htpasswd') add(name, [second, ...rest].join(':'));
    else if (second === realm) add(name, rest.join(':'));
  }
  return passwords;
}

async function readUsers(filename: string): Promise<string> {
  try {
    const file = await open(filename, 'r');
    try {
      const { size } = await file.stat();
      if (size > maxFileBytes) throw new Error(`larger than ${maxFileBytes} bytes`);
      return await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const text = `external_auth: file: the file of users cannot be read: ${reason}`;
    throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text, { cause });
  }
}

/** One password for everybody, who are whoever they say [salt/auth/sharedsecret.py]. */
function createSharedSecretBackend(sharedsecret: string): LoginBackend {
  return {
    name: 'sharedsecret',
    authenticate: async ({ username, password }) => {
      const isRight = sharedsecret !== '' && isSameText(password, sharedsecret);
      return isRight ? { user: username, groups: [] } : undefined;
    },
  };
}

/** Back ends by the name under `external_auth`. What is not there lets nobody in. */
export type Backends = ReadonlyMap<string, LoginBackend>;

/**
 * The back ends of a configuration. Those with a mistake are left out; the start told it.
 * @param before those that were made from the same options are kept, with what they remember
 */
export function createBackends(
  config: ReloadableConfig,
  now: () => number,
  before: Backends = new Map(),
): Backends {
  const backends = new Map<string, LoginBackend>();
  for (const name of Object.keys(config.externalAuth)) {
    const read = readBackend(name, config);
    if (!('settings' in read)) continue;
    const madeFrom = digestOf([read.settings, config.eauth]);
    const known = before.get(name);
    const backend =
      known?.madeFrom === madeFrom ? known : createBackend(read.settings, config, now);
    backends.set(name, { ...backend, madeFrom });
  }
  return backends;
}

/** Tells whether options are the same, and nothing of the secrets among them. */
function digestOf(options: unknown): string {
  return createHash('sha256').update(JSON.stringify(options)).digest('hex');
}

function createBackend(
  settings: BackendSettings,
  { eauth }: ReloadableConfig,
  now: () => number,
): LoginBackend {
  switch (settings.kind) {
    case 'auto':
      return createAutoBackend();
    case 'file':
      return createFileBackend(settings);
    case 'jwt':
      return createJwtBackend(settings, now);
    case 'keystone':
      return createKeystoneBackend({ authUrl: eauth.keystoneAuthUrl, domain: settings.domain });
    case 'ldap':
      return createLdapBackend(eauth);
    case 'pam':
      return createPamBackend(eauth.pamService);
    case 'sharedsecret':
      return createSharedSecretBackend(eauth.sharedsecret ?? '');
  }
}
