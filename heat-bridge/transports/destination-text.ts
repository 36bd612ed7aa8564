/** Checks of what Heat gives for a handle. No error repeats what was given. */

import { BridgeError } from '../errors.ts';
import type { Credentials } from '../openstack/log-in.ts';

/** Credentials as Heat writes them. */
interface LoginForm {
  readonly auth_url: string;
  readonly user_id: string;
  readonly password: string;
  readonly project_id: string;
}

/** @throws BridgeError ERR_HANDLE_FORM */
export function credentialsOf(form: LoginForm): Credentials {
  return {
    authUrl: checkedUrl(form.auth_url).replace(/\/+$/, ''),
    userId: form.user_id,
    password: form.password,
    projectId: form.project_id,
  };
}

/**
 * Returns an address as it is written, since signatures cover it. Characters that a reader of HTTP
 * or of addresses could take for something else are refused.
 * @throws BridgeError ERR_HANDLE_FORM
 */
export function checkedUrl(text: string): string {
  const isPlain = /^https?:\/\/[\x21-\x7e]+$/.test(text) && !/[\\#"<>^`{|}]/.test(text);
  if (!isPlain || !URL.canParse(text)) throw destinationError('no plain http or https address');
  const { username, password } = new URL(text);
  if (username !== '' || password !== '' || text.split('/')[2]?.includes('@')) {
    throw destinationError('an address with a user in it');
  }
  return text;
}

/** @throws BridgeError ERR_HANDLE_FORM */
export function checkedToken(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text)) throw destinationError('a token that cannot stand in a header');
  return text;
}

export function destinationError(what: string): BridgeError {
  return new BridgeError('ERR_HANDLE_FORM', `where the handle's signals go: ${what}`);
}
