/**
 * Validates the values in the description of a machine (`install:` or cfn-init) before a minion
 * receives them.
 */

import path from 'node:path';
import { isPlainMap } from '../command-definition.ts';
import { configError } from './state-config.ts';

const packageForm = /^[A-Za-z0-9][A-Za-z0-9.+_:-]{0,199}$/;
const versionForm = /^[A-Za-z0-9][A-Za-z0-9.+~:_^-]{0,199}$/;
const accountForm = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$/;
const serviceForm = /^[A-Za-z0-9][A-Za-z0-9@._:-]{0,199}$/;
/** Control characters, at which some programs would end a text prematurely. */
const controlForm = /\p{Cc}/u;
const maxPath = 4095;

export function requirePackage(name: string, place: string): string {
  if (packageForm.test(name)) return name;
  throw configError(
    place,
    'the name of a package must begin with a letter or digit, and may contain only letters, digits and . + _ : -',
  );
}

export function requireVersion(version: string, place: string): string {
  if (versionForm.test(version)) return version;
  throw configError(
    place,
    'a version must begin with a letter or digit, and may contain only letters, digits and . + ~ : _ ^ -',
  );
}

export function requireAccount(name: string, place: string): string {
  if (accountForm.test(name)) return name;
  throw configError(
    place,
    'the name of a user or group must begin with a letter or _, and may contain only letters, digits and _ . -',
  );
}

export function requireService(name: string, place: string): string {
  if (serviceForm.test(name)) return name;
  throw configError(
    place,
    'the name of a service must begin with a letter or digit, and may contain only letters, digits and @ . _ : -',
  );
}

/** Returns an absolute, normalized path. */
export function requirePath(given: unknown, place: string): string {
  if (typeof given === 'string' && isPlainPath(given)) return given;
  throw configError(
    place,
    'the path must begin with /, must not end with /, and must not contain //, /./ or /../',
  );
}

function isPlainPath(given: string): boolean {
  if (!given.startsWith('/') || given.length > maxPath || controlForm.test(given)) return false;
  return !given.endsWith('/') && path.posix.normalize(given) === given;
}

/** Checks the target of a symbolic link, which may be a relative path, and returns it. */
export function requireLinkTarget(given: string, place: string): string {
  if (given !== '' && given.length <= maxPath && !controlForm.test(given)) return given;
  throw configError(place, 'the target of a symbolic link must be a path without line breaks');
}

/**
 * Checks that a value is an http or https URL, and returns it. Other URLs are rejected, because
 * they could refer to files on the master or the minion.
 */
export function requireUrl(given: unknown, place: string): string {
  if (typeof given === 'string' && isWebAddress(given)) return given;
  throw configError(place, 'the value must be a valid URL that begins with http:// or https://');
}

function isWebAddress(given: string): boolean {
  return given.length <= maxPath && /^https?:\/\/\S+$/i.test(given) && URL.canParse(given);
}

/** Returns a numeric user or group id, given as a number or as digits. */
export function requireId(given: unknown, place: string): number {
  const id = typeof given === 'string' && /^\d{1,10}$/.test(given) ? Number(given) : given;
  if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < 4_294_967_295) return id;
  throw configError(place, 'the numeric id of a user or group must be from 0 to 4294967294');
}

/** Returns the owner of a file: a name or a numeric id. */
export function requireOwner(given: unknown, place: string): number | string {
  if (typeof given === 'number' || (typeof given === 'string' && /^\d+$/.test(given))) {
    return requireId(given, place);
  }
  if (typeof given === 'string') return requireAccount(given, place);
  throw configError(place, 'the owner must be the name or the numeric id of a user or group');
}

export function requireText(given: unknown, place: string): string {
  if (typeof given === 'string' && !given.includes('\0')) return given;
  throw configError(place, 'must be text');
}

export function requireMap(given: unknown, place: string): Readonly<Record<string, unknown>> {
  if (isPlainMap(given)) return given;
  throw configError(place, 'must be a map');
}

/** Rejects unknown keys. */
export function requireKnownKeys(
  map: Readonly<Record<string, unknown>>,
  known: readonly string[],
  place: string,
): void {
  const unknown = Object.keys(map).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw configError(place, `unknown field ${shown(unknown)}; known fields are ${known.join(', ')}`);
}

/** Returns a list of texts. If the list is absent, returns an empty list. */
export function requireTexts(given: unknown, place: string): readonly string[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) throw configError(place, 'must be a list');
  return given.map((one) => requireText(one, place));
}

/** Returns environment variables, by name. Converts numbers and booleans to text. */
export function requireEnvironment(
  given: unknown,
  place: string,
): Readonly<Record<string, string>> {
  const entries = Object.entries(requireMap(given, place)).map(([name, value]) => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw configError(
        place,
        `${shown(name)} is not a valid variable name: use letters, digits and _, and do not begin with a digit`,
      );
    }
    const isScalar = ['boolean', 'bigint', 'number', 'string'].includes(typeof value);
    if (!isScalar) throw configError(`${place}: ${name}`, 'must be text, a number or a boolean');
    return [name, requireText(String(value), `${place}: ${name}`)] as const;
  });
  return Object.fromEntries(entries);
}

/** Whether a value means true: `true`, `yes` or `1`, in any case. */
export function isTrue(given: unknown): boolean {
  return ['true', 'yes', '1'].includes(String(given).trim().toLowerCase());
}

/** Quotes text for an error message, truncated to 64 characters. */
export function shown(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}

/**
 * Returns the format of the archive at a URL, from its file extension or from the form of GitHub's
 * archive paths. Returns `undefined` if the format is unknown.
 */
export function archiveFormatOf(url: string): 'tar' | 'zip' | undefined {
  const { hostname, pathname } = new URL(url);
  const name = pathname.toLowerCase();
  if (/\.(?:tar|tar\.gz|tgz|tar\.bz2|tbz2)$/.test(name)) return 'tar';
  if (name.endsWith('.zip')) return 'zip';
  if (hostname !== 'github.com' && !hostname.endsWith('.github.com')) return undefined;
  if (pathname.includes('/tarball/')) return 'tar';
  return pathname.includes('/zipball/') ? 'zip' : undefined;
}

/** Returns a command: text for the shell, or a program with its arguments. */
export function commandOf(given: unknown, place: string): string | readonly string[] {
  if (typeof given === 'string' && given !== '') return requireText(given, place);
  if (Array.isArray(given) && given.length > 0) return given.map((it) => requireText(it, place));
  throw configError(
    place,
    'a command must be text for the shell, or a list of a program and its arguments',
  );
}
