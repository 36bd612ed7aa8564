/** Packages that only some programs need: loaded when used, and npm may leave them out. */

import { type ErrorEntry, SaltbridgeError } from './errors.ts';

/** The catalogue of this room's error codes. */
export const runtimeErrors = {
  ERR_PACKAGE_MISSING: {
    meaning: 'An optional package that this needs is not installed.',
    action: 'Install the package that the message names; npm leaves it out with --omit=optional.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/**
 * Loads an optional package.
 * @param need - what needs it, for the message
 * @throws SaltbridgeError ERR_PACKAGE_MISSING
 */
export async function loadOptionalPackage<T>(
  name: string,
  need: string,
  load: () => Promise<T>,
): Promise<T> {
  try {
    return await load();
  } catch (error) {
    throw toMissingPackage(name, need, error);
  }
}

/** As {@link loadOptionalPackage}, for a package that is loaded by `require`. */
export function requireOptionalPackage<T>(name: string, need: string, load: () => T): T {
  try {
    return load();
  } catch (error) {
    throw toMissingPackage(name, need, error);
  }
}

/** Any other error stays what it is. */
function toMissingPackage(name: string, need: string, cause: unknown): unknown {
  if (!(cause instanceof Error) || !('code' in cause)) return cause;
  const isMissing = cause.code === 'ERR_MODULE_NOT_FOUND' || cause.code === 'MODULE_NOT_FOUND';
  if (!isMissing || !cause.message.includes(`'${name}'`)) return cause;
  const message = `${need} needs the package ${name}, which is not installed: npm install ${name}`;
  return new SaltbridgeError('ERR_PACKAGE_MISSING', message, { cause });
}
