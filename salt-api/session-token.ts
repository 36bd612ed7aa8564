/** Reads the session token of a request and writes the cookie that contains it [THREATS A-15]. */

import type { IncomingHttpHeaders } from 'node:http';

const cookieName = 'session_id';

/**
 * Returns the session token of a request: from the header, or from the cookie if the header is
 * absent.
 */
export function sessionTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const header = headers['x-auth-token'];
  if (typeof header === 'string' && header !== '') return header;
  return isCrossSite(headers) ? undefined : cookieOf(headers.cookie);
}

/**
 * Returns the token in the header `Authorization`. It is a token of the master, not of a session.
 * Only programs send it.
 */
export function bearerOf({ authorization }: IncomingHttpHeaders): string | undefined {
  return /^Bearer ([0-9a-f]{64})$/i.exec(authorization ?? '')?.[1];
}

/**
 * Returns the value of the header that sets the session cookie.
 * @param maxAge - lifetime in seconds; 0 deletes the cookie
 */
export function sessionCookie(token: string, maxAge: number, isSecure: boolean): string {
  const expires = new Date(Date.now() + (maxAge === 0 ? -86_400_000 : maxAge * 1000)).toUTCString();
  const life = maxAge === 0 ? '' : `; Max-Age=${maxAge}`;
  const secure = isSecure ? '; Secure' : '';
  return `${cookieName}=${token}; expires=${expires}${life}; Path=/; HttpOnly; SameSite=Strict${secure}`;
}

/**
 * Whether the browser reports that a page of another site sent the request. The cookie of such a
 * request must not be used, and its response must not set one. Clients without this header are
 * programs or old browsers. For old browsers, `SameSite` gives the same protection.
 */
export function isCrossSite({
  origin,
  host,
  'sec-fetch-site': site,
}: IncomingHttpHeaders): boolean {
  if (site === 'cross-site' || site === 'same-site') return true;
  return origin !== undefined && hostOf(origin) !== host;
}

function hostOf(origin: string): string | undefined {
  try {
    return new URL(origin).host;
  } catch {
    return undefined;
  }
}

function cookieOf(cookies: string | undefined): string | undefined {
  for (const cookie of cookies?.split(';') ?? []) {
    const [name, value] = cookie.trim().split('=', 2);
    if (name === cookieName && value !== undefined && value !== '') return value;
  }
  return undefined;
}
