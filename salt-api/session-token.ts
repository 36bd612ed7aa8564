/** The session token of a request, and the cookie that carries it [THREATS A-15]. */

import type { IncomingHttpHeaders } from 'node:http';

const cookieName = 'session_id';

/**
 * Returns the session token of a request: from the header, or from the cookie if there is no
 * header.
 */
export function sessionTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const header = headers['x-auth-token'];
  if (typeof header === 'string' && header !== '') return header;
  return isCrossSite(headers) ? undefined : cookieOf(headers.cookie);
}

/** Returns one of the master's own tokens from the header that programs use. */
export function bearerOf({ authorization }: IncomingHttpHeaders): string | undefined {
  return /^Bearer ([0-9a-f]{64})$/i.exec(authorization ?? '')?.[1];
}

/**
 * Returns the cookie of a session.
 * @param maxAge lifetime in seconds; 0 deletes the cookie
 */
export function sessionCookie(token: string, maxAge: number, isSecure: boolean): string {
  const expires = new Date(Date.now() + (maxAge === 0 ? -86_400_000 : maxAge * 1000)).toUTCString();
  const life = maxAge === 0 ? '' : `; Max-Age=${maxAge}`;
  const secure = isSecure ? '; Secure' : '';
  return `${cookieName}=${token}; expires=${expires}${life}; Path=/; HttpOnly; SameSite=Strict${secure}`;
}

/**
 * Whether a browser reports that a page of another site sent the request. Such requests must not
 * use the cookie. Clients that report nothing are programs, or old browsers, which `SameSite`
 * covers.
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
