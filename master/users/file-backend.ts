/** Users of a file [salt/auth/file.py], which is read for each check. */

import { open } from 'node:fs/promises';
import type { FileBackendSettings } from '#config';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import {
  costliestPassword,
  isDisabled,
  isPassword,
  isUnread,
  type PasswordForm,
} from './password-hashes.ts';

const maxFileBytes = 16 * 1024 * 1024;

/** Stands in for an unknown user's where the file has none. */
const nobodysPassword = '{SHA}';

export function createFileBackend(settings: FileBackendSettings): LoginBackend {
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
