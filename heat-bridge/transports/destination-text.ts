/**
 * Validates destinations of handles. The error messages do not repeat the given text, because it
 * contains secrets.
 */

import { trimEnd } from '#runtime';
import { BridgeError } from '../errors.ts';
import type { Credentials } from '../openstack/log-in.ts';

/** Credentials, in the form in which Heat writes them. */
interface LoginForm {
  readonly auth_url: string;
  readonly user_id: string;
  readonly password: string;
  readonly project_id: string;
}

/**
 * Validates and converts credentials.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function credentialsOf(form: LoginForm): Credentials {
  return {
    authUrl: trimEnd(checkedUrl(form.auth_url), '/'),
    userId: form.user_id,
    password: form.password,
    projectId: form.project_id,
  };
}

/**
 * Validates a URL, and returns it unchanged, because signatures cover its exact text. Characters
 * that HTTP or URL parsers could interpret in different ways are rejected.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function checkedUrl(text: string): string {
  const isPlain = /^https?:\/\/[\x21-\x7e]+$/.test(text) && !/[\\#"<>^`{|}]/.test(text);
  if (!isPlain || !URL.canParse(text))
    throw destinationError(
      'the URL must begin with http:// or https://, and must not contain spaces, quotes or other special characters',
    );
  const { username, password } = new URL(text);
  if (username !== '' || password !== '' || text.split('/')[2]?.includes('@')) {
    throw destinationError('the URL must not contain a user name or password');
  }
  return text;
}

/**
 * Validates a token, which must be permitted in an HTTP header.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function checkedToken(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text))
    throw destinationError(
      'the token contains characters that are not permitted in an HTTP header',
    );
  return text;
}

export function destinationError(what: string): BridgeError {
  return new BridgeError('ERR_HANDLE_FORM', `signal: ${what}`);
}
