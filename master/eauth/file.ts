/** Users of a file [salt/auth/file.py]. It is read for each question, so it is never out of date. */
import { open } from 'node:fs/promises';
import type { FileBackendSettings } from '../config/backends.ts';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { isDisabled, isPassword, isUnread, type PasswordForm } from './password-forms.ts';

const maxFileBytes = 16 * 1024 * 1024;

/** Stands in for an unknown user's, so that there is something to compare with. */
const nobodysPassword = '{SHA}';

export function createFileBackend(settings: FileBackendSettings): LoginBackend {
  const form = formOf(settings);
  const find = async (user: string): Promise<string | undefined> =>
    findPassword(await readUsers(settings.filename), user, settings);
  return {
    name: 'file',
    authenticate: async ({ username, password }) => {
      const kept = await find(username);
      const given = { user: username, realm: settings.realm, password };
      const isRight = await isPassword(given, kept ?? nobodysPassword, form);
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

/** What stands for a user's password; the first line that has the name counts. */
function findPassword(
  text: string,
  user: string,
  settings: FileBackendSettings,
): string | undefined {
  const { filetype, fieldSeparator, usernameField, passwordField, realm } = settings;
  for (const line of text.split('\n')) {
    const trimmed = line.trim();
    if (filetype === 'text') {
      const fields = trimmed.split(fieldSeparator);
      if (fields[usernameField - 1] === user) return fields[passwordField - 1];
      continue;
    }
    if (trimmed.startsWith('#')) continue;
    const [name, second = '', ...rest] = trimmed.split(':');
    if (name !== user) continue;
    if (filetype === 'htpasswd') return [second, ...rest].join(':');
    if (second === realm) return rest.join(':');
  }
  return undefined;
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
