/** Validation of handles' destinations. No error message repeats the given text. */

import { BridgeError } from '../errors.ts';
import type { Credentials } from '../openstack/log-in.ts';

/** Credentials in Heat's form. */
interface LoginForm {
  readonly auth_url: string;
  readonly user_id: string;
  readonly password: string;
  readonly project_id: string;
}

/**
 * Converts credentials.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function credentialsOf(form: LoginForm): Credentials {
  return {
    authUrl: checkedUrl(form.auth_url).replace(/\/+$/, ''),
    userId: form.user_id,
    password: form.password,
    projectId: form.project_id,
  };
}

/**
 * Returns a URL unchanged, because signatures cover its text. Characters that HTTP or URL parsers
 * could interpret differently are rejected.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function checkedUrl(text: string): string {
  const isPlain = /^https?:\/\/[\x21-\x7e]+$/.test(text) && !/[\\#"<>^`{|}]/.test(text);
  if (!isPlain || !URL.canParse(text)) throw destinationError('must be a plain http or https URL');
  const { username, password } = new URL(text);
  if (username !== '' || password !== '' || text.split('/')[2]?.includes('@')) {
    throw destinationError('the URL must not contain a user');
  }
  return text;
}

/**
 * Returns a token that is valid in an HTTP header.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function checkedToken(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text))
    throw destinationError('the token has characters that are invalid in a header');
  return text;
}

export function destinationError(what: string): BridgeError {
  return new BridgeError('ERR_HANDLE_FORM', `signal: ${what}`);
}
