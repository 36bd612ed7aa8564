/**
 * Log-in backend for users in a password file [salt/auth/file.py]. The file is read again for each
 * check.
 */

import { open } from 'node:fs/promises';
import type { FileBackendSettings } from '#config';
import { errorMessage } from '#runtime';
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

/**
 * Password entry that the backend compares with the password if the file contains no users. It
 * matches no password. The comparison takes some time, as for any other unknown user, so that the
 * duration reveals nothing.
 */
const fallbackPassword = '{SHA}';

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
      // For an unknown user, the entry that is slowest to compare is used, so that the time does
      // not reveal whether the user exists.
      const compared = kept ?? costliestPassword([...passwords.values()]) ?? fallbackPassword;
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
        return errorMessage(error);
      }
    },
  };
}

const unreadForms =
  'users cannot log in: their password has an unsupported form (DES, or bcrypt with a cost above 14); ' +
  'set it again with htpasswd -5 (SHA-512) or htpasswd -m';

function formOf({ filetype, hashtype }: FileBackendSettings): PasswordForm {
  return filetype === 'text' ? hashtype : filetype;
}

/**
 * Returns the password entry of each user. If a name occurs several times, the first line applies.
 */
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
      if (size > maxFileBytes)
        throw new Error(`the user file is larger than ${maxFileBytes} bytes`);
      return await file.readFile('utf8');
    } finally {
      await file.close();
    }
  } catch (cause) {
    const reason = errorMessage(cause);
    const text = `external_auth: file: the user file cannot be read: ${reason}`;
    throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text, { cause });
  }
}
