/** The forms of what stands in a config: everything else is refused before a minion sees it. */

import path from 'node:path';
import { isPlainMap } from '../command-definition.ts';
import { configError } from './state-config.ts';

const packageForm = /^[A-Za-z0-9][A-Za-z0-9.+_:-]{0,199}$/;
const versionForm = /^[A-Za-z0-9][A-Za-z0-9.+~:_^-]{0,199}$/;
const accountForm = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$/;
const serviceForm = /^[A-Za-z0-9][A-Za-z0-9@._:-]{0,199}$/;
/** Control characters, and what ends a text for the programs that read it. */
const controlForm = /\p{Cc}/u;
const maxPath = 4095;

export function requirePackage(name: string, place: string): string {
  if (packageForm.test(name)) return name;
  throw configError(place, 'expected the name of a package: letters, digits and . + _ : -');
}

export function requireVersion(version: string, place: string): string {
  if (versionForm.test(version)) return version;
  throw configError(place, 'expected a version: letters, digits and . + ~ : _ ^ -');
}

export function requireAccount(name: string, place: string): string {
  if (accountForm.test(name)) return name;
  throw configError(place, 'expected the name of a user or group');
}

export function requireService(name: string, place: string): string {
  if (serviceForm.test(name)) return name;
  throw configError(place, 'expected the name of a service');
}

/** An absolute path with nothing in it that leads elsewhere. */
export function requirePath(given: unknown, place: string): string {
  if (typeof given === 'string' && isPlainPath(given)) return given;
  throw configError(place, 'expected an absolute path without //, /./, /../ or a / at its end');
}

function isPlainPath(given: string): boolean {
  if (!given.startsWith('/') || given.length > maxPath || controlForm.test(given)) return false;
  return !given.endsWith('/') && path.posix.normalize(given) === given;
}

/** The target of a link may be relative. */
export function requireLinkTarget(given: string, place: string): string {
  if (given !== '' && given.length <= maxPath && !controlForm.test(given)) return given;
  throw configError(place, 'expected the path that the link points to');
}

/** An address of a web server: not a file of the master's or of the minion's own. */
export function requireUrl(given: unknown, place: string): string {
  if (typeof given === 'string' && isWebAddress(given)) return given;
  throw configError(place, 'expected an address with http:// or https://');
}

function isWebAddress(given: string): boolean {
  return given.length <= maxPath && /^https?:\/\/\S+$/i.test(given) && URL.canParse(given);
}

/** Digits in text or a number. */
export function requireId(given: unknown, place: string): number {
  const id = typeof given === 'string' && /^\d{1,10}$/.test(given) ? Number(given) : given;
  if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < 4_294_967_295) return id;
  throw configError(place, 'expected a number from 0 to 4294967294');
}

/** A name or a number. */
export function requireOwner(given: unknown, place: string): number | string {
  if (typeof given === 'number' || (typeof given === 'string' && /^\d+$/.test(given))) {
    return requireId(given, place);
  }
  if (typeof given === 'string') return requireAccount(given, place);
  throw configError(place, 'expected the name of a user or group');
}

export function requireText(given: unknown, place: string): string {
  if (typeof given === 'string' && !given.includes('\0')) return given;
  throw configError(place, 'expected text');
}

export function requireMap(given: unknown, place: string): Readonly<Record<string, unknown>> {
  if (isPlainMap(given)) return given;
  throw configError(place, 'expected a map');
}

/** Refuses what no key is known by. */
export function requireKnownKeys(
  map: Readonly<Record<string, unknown>>,
  known: readonly string[],
  place: string,
): void {
  const unknown = Object.keys(map).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw configError(place, `${shown(unknown)} is not known; it has ${known.join(', ')}`);
}

/** A list of texts. */
export function requireTexts(given: unknown, place: string): readonly string[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) throw configError(place, 'expected a list');
  return given.map((one) => requireText(one, place));
}

/** Variables of an environment. */
export function requireEnvironment(
  given: unknown,
  place: string,
): Readonly<Record<string, string>> {
  const entries = Object.entries(requireMap(given, place)).map(([name, value]) => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw configError(place, `${shown(name)} is no name of a variable`);
    }
    const isScalar = ['boolean', 'bigint', 'number', 'string'].includes(typeof value);
    if (!isScalar) throw configError(`${place}: ${name}`, 'expected text, a number or a boolean');
    return [name, requireText(String(value), `${place}: ${name}`)] as const;
  });
  return Object.fromEntries(entries);
}

/** `true`, `yes` and `1` mean true, in any case; everything else does not. */
export function isTrue(given: unknown): boolean {
  return ['true', 'yes', '1'].includes(String(given).trim().toLowerCase());
}

/** What somebody wrote, cut for an error. */
export function shown(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}

/** `undefined`: neither the end of the address nor GitHub says what it is. */
export function archiveFormatOf(url: string): 'tar' | 'zip' | undefined {
  const { hostname, pathname } = new URL(url);
  const name = pathname.toLowerCase();
  if (/\.(?:tar|tar\.gz|tgz|tar\.bz2|tbz2)$/.test(name)) return 'tar';
  if (name.endsWith('.zip')) return 'zip';
  if (hostname !== 'github.com' && !hostname.endsWith('.github.com')) return undefined;
  if (pathname.includes('/tarball/')) return 'tar';
  return pathname.includes('/zipball/') ? 'zip' : undefined;
}

/** Text for the shell, or a program with its arguments. */
export function commandOf(given: unknown, place: string): string | readonly string[] {
  if (typeof given === 'string' && given !== '') return requireText(given, place);
  if (Array.isArray(given) && given.length > 0) return given.map((it) => requireText(it, place));
  throw configError(place, 'expected a command: text, or a list of texts');
}
