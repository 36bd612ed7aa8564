/** The session token of a request, and the cookie that carries it [THREATS A-15]. */

import type { IncomingHttpHeaders } from 'node:http';

const cookieName = 'session_id';

/** The session token of a request: the header's, and only without one the cookie's. */
export function sessionTokenOf(headers: IncomingHttpHeaders): string | undefined {
  const header = headers['x-auth-token'];
  if (typeof header === 'string' && header !== '') return header;
  return isCrossSite(headers) ? undefined : cookieOf(headers.cookie);
}

/** One of the master's own tokens, in the header that programs use. */
export function bearerOf({ authorization }: IncomingHttpHeaders): string | undefined {
  return /^Bearer ([0-9a-f]{64})$/i.exec(authorization ?? '')?.[1];
}

/** @param maxAge seconds; 0 takes the cookie away */
export function sessionCookie(token: string, maxAge: number, isSecure: boolean): string {
  const expires = new Date(Date.now() + (maxAge === 0 ? -86_400_000 : maxAge * 1000)).toUTCString();
  const life = maxAge === 0 ? '' : `; Max-Age=${maxAge}`;
  const secure = isSecure ? '; Secure' : '';
  return `${cookieName}=${token}; expires=${expires}${life}; Path=/; HttpOnly; SameSite=Strict${secure}`;
}

/**
 * Browsers say where a request comes from; a page of another site gets nothing by a cookie. What
 * says nothing is no browser, or an old one, which `SameSite` stops.
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
