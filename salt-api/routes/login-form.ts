/** Log-ins as bodies have them. */
import type { LoginRequest } from '../../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';

/** What is no text becomes what nobody can log in with: the answer is the same for all of it. */
export function toLogin(fields: Readonly<WireMap>, source: string): LoginRequest {
  const text = (name: string): string => {
    const value = fields[name];
    return typeof value === 'string' ? value : '';
  };
  const { token_expire: expire } = fields;
  return {
    username: text('username'),
    password: text('password'),
    eauth: text('eauth'),
    source,
    // Forms have text alone.
    ...(typeof expire === 'number' || typeof expire === 'string'
      ? { tokenExpire: Number(expire) }
      : {}),
  };
}

/** The maps of a body: a log-in is one, or a list of one. */
export function formsOf(value: WireValue | undefined): readonly WireMap[] {
  if (isWireMap(value)) return [value];
  return Array.isArray(value) ? value.slice(0, 1).filter(isWireMap) : [];
}
