/**
 * Log-in backend for tokens of an identity provider (OpenID Connect). Instead of a password, the
 * user sends a signed JWT [RFC 7519].
 */

import type { FetchImplementation, errors as JoseErrors, JWTPayload, JWTVerifyGetKey } from 'jose';
import type { JwtBackendSettings } from '#config';
import { loadOptionalPackage, readStream } from '#runtime';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';

/** Accepted deviation of the identity provider's clock, in seconds. */
const clockTolerance = 30;

/** Maximum size of the identity provider's keys, in bytes of JSON. */
const maxKeyBytes = 524_288;

/**
 * Fetches the keys of the identity provider.
 * @throws Error if they exceed {@link maxKeyBytes}
 */
const fetchKeys: FetchImplementation = async (url, options) => {
  const response = await fetch(url, options);
  const tooLarge = (): Error => new Error(`the keys exceed ${maxKeyBytes} bytes`);
  const bytes = await readStream(response.body ?? [], maxKeyBytes, tooLarge);
  // Responses with some statuses, for example 204, must not have a body.
  return new Response(bytes.length === 0 ? null : bytes, { status: response.status });
};

export function createJwtBackend(settings: JwtBackendSettings, now: () => number): LoginBackend {
  const { issuer, audience, userClaim, groupsClaim } = settings;
  let keys: JWTVerifyGetKey | undefined;
  const verify = async (token: string): Promise<JWTPayload | undefined> => {
    // The package is loaded on demand, because few masters use an identity provider.
    const { createRemoteJWKSet, customFetch, errors, jwtVerify } = await loadOptionalPackage(
      'jose',
      'eauth jwt',
      () => import('jose'),
    );
    keys ??= createRemoteJWKSet(new URL(settings.jwksUri), {
      timeoutDuration: 5000,
      [customFetch]: fetchKeys,
    });
    try {
      const { payload } = await jwtVerify(token, keys, {
        issuer,
        audience,
        // Only the configured algorithms are accepted, because the token itself must not choose the
        // algorithm.
        algorithms: [...settings.algorithms],
        requiredClaims: ['exp', userClaim],
        currentDate: new Date(now()),
        clockTolerance,
      });
      return payload;
    } catch (error) {
      if (isRefusal(errors, error)) return undefined;
      const reason = error instanceof Error ? error.name : 'unknown';
      const text = `the keys of the identity provider cannot be fetched (${reason})`;
      throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', text, { cause: error });
    }
  };
  return {
    name: 'jwt',
    authenticate: async ({ username, password }) => {
      const payload = await verify(password);
      if (payload?.exp === undefined || payload[userClaim] !== username) return undefined;
      const claimed = payload[groupsClaim];
      const groups = Array.isArray(claimed) ? claimed.filter((it) => typeof it === 'string') : [];
      return { user: username, groups, until: payload.exp * 1000 };
    },
  };
}

/** Whether the error means that the token is invalid. */
function isRefusal(errors: typeof JoseErrors, error: unknown): boolean {
  return (
    error instanceof errors.JOSEError &&
    !(error instanceof errors.JWKSTimeout) &&
    !(error instanceof errors.JWKSInvalid) &&
    error.code !== 'ERR_JOSE_GENERIC'
  );
}
