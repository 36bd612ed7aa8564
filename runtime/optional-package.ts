/** Loads optional packages. Only some programs need them, and npm may omit them. */

import { type ErrorEntry, SaltbridgeError } from './errors.ts';

/** Meaning and remedy of the error codes of the directory `runtime/`. */
export const runtimeErrors = {
  ERR_PACKAGE_MISSING: {
    meaning: 'A feature needs an optional package that is not installed.',
    action: 'Install the package that the message names. npm omits it with --omit=optional.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/**
 * Loads an optional package.
 * @param need - feature that needs the package, for the error message
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

/** Loads an optional package with `require`, like {@link loadOptionalPackage}. */
export function requireOptionalPackage<T>(name: string, need: string, load: () => T): T {
  try {
    return load();
  } catch (error) {
    throw toMissingPackage(name, need, error);
  }
}

/**
 * Returns the ERR_PACKAGE_MISSING error if the package is missing, otherwise the error unchanged.
 */
function toMissingPackage(name: string, need: string, cause: unknown): unknown {
  if (!(cause instanceof Error) || !('code' in cause)) return cause;
  const isMissing = cause.code === 'ERR_MODULE_NOT_FOUND' || cause.code === 'MODULE_NOT_FOUND';
  if (!isMissing || !cause.message.includes(`'${name}'`)) return cause;
  const message = `${need} needs the package ${name}, which is not installed: npm install ${name}`;
  return new SaltbridgeError('ERR_PACKAGE_MISSING', message, { cause });
}
