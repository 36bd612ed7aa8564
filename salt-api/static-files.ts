/** Files that anybody may read: a map made once, so that no path leads anywhere else [THREATS A-19]. */
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { SaltApiError } from './errors.ts';

/** A file that is served. */
export interface StaticFile {
  readonly file: string;
  readonly type: string;
}

/** Files of one directory. */
const maxFiles = 10_000;

/** Browsers refuse modules of another type than their own. */
const types: ReadonlyMap<string, string> = new Map([
  ['.css', 'text/css; charset=utf-8'],
  ['.gif', 'image/gif'],
  ['.htm', 'text/html; charset=utf-8'],
  ['.html', 'text/html; charset=utf-8'],
  ['.ico', 'image/x-icon'],
  ['.jpeg', 'image/jpeg'],
  ['.jpg', 'image/jpeg'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.json', 'application/json'],
  ['.md', 'text/plain; charset=utf-8'],
  ['.mjs', 'text/javascript; charset=utf-8'],
  ['.png', 'image/png'],
  ['.svg', 'image/svg+xml'],
  ['.txt', 'text/plain; charset=utf-8'],
  ['.woff', 'font/woff'],
  ['.woff2', 'font/woff2'],
]);

/** The file of an option. @throws SaltApiError ERR_HTTP_LISTEN if it is none */
export async function findFile(file: string): Promise<StaticFile> {
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() !== true) throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: no file`);
  return { file: await realpath(file), type: typeOf(file) };
}

/**
 * The files below a directory, by their paths with `/`. Symbolic links and names that begin with a
 * dot are left out.
 * @throws SaltApiError ERR_HTTP_LISTEN if it cannot be read, or has more than 10,000 files
 */
export async function findFiles(directory: string): Promise<ReadonlyMap<string, StaticFile>> {
  const files = new Map<string, StaticFile>();
  const waiting = [''];
  for (let below = waiting.pop(); below !== undefined; below = waiting.pop()) {
    for (const entry of await list(path.join(directory, below))) {
      const name = `${below}${entry.name}`;
      // protection: static-hidden
      if (entry.name.startsWith('.')) continue;
      if (entry.isDirectory()) waiting.push(`${name}/`);
      if (!entry.isFile()) continue;
      files.set(name, { file: path.resolve(directory, name), type: typeOf(name) });
      if (files.size > maxFiles) {
        throw new SaltApiError('ERR_HTTP_LISTEN', `${directory}: more than ${maxFiles} files`);
      }
    }
  }
  return files;
}

async function list(directory: string): ReturnType<typeof readDirectory> {
  try {
    return await readDirectory(directory);
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_LISTEN', `${directory}: cannot be read`, { cause });
  }
}

function readDirectory(directory: string): Promise<Dirent[]> {
  return readdir(directory, { withFileTypes: true });
}

function typeOf(file: string): string {
  return types.get(path.extname(file).toLowerCase()) ?? 'application/octet-stream';
}
