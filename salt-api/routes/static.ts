/** Static files and the app page. */

import type { Dirent } from 'node:fs';
import { constants, open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ApiContext } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { wantsPage } from '../formats.ts';
import { fileOperation } from './operations.ts';
import { addRoute } from './route.ts';

// Public files: a fixed map, so that no path leads anywhere else [THREATS A-19].

/** A file that is served. */
interface StaticFile {
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
async function findStaticFile(file: string): Promise<StaticFile> {
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() !== true) throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: no file`);
  return { file: await realpath(file), type: typeOf(file) };
}

/**
 * The files below a directory, by their paths with `/`. Symbolic links and names that begin with a
 * dot are left out.
 * @throws SaltApiError ERR_HTTP_LISTEN if it cannot be read, or has more than 10,000 files
 */
async function findStaticFiles(directory: string): Promise<ReadonlyMap<string, StaticFile>> {
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

/** Adds what is configured. @throws SaltApiError ERR_HTTP_LISTEN for what is not there */
export async function addStaticRoutes(
  app: FastifyInstance,
  { options }: ApiContext,
): Promise<void> {
  const { static: directory, staticPath, app: page, appPath, favicon } = options;
  if (directory !== undefined) {
    const files = await findStaticFiles(directory);
    addRoute(app, `${staticPath}/*`, {
      GET: {
        about: fileOperation,
        // protection: static-paths
        handle: (request, reply) => sendFile(request, reply, files.get(restOf(request))),
      },
    });
  }
  if (favicon !== undefined) {
    const file = await findStaticFile(favicon);
    addRoute(app, '/favicon.ico', {
      GET: { about: fileOperation, handle: (request, reply) => sendFile(request, reply, file) },
    });
  }
  if (page !== undefined) {
    const file = await findStaticFile(page);
    const show = (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
      sendFile(request, reply, file);
    for (const url of [appPath, `${appPath}/*`]) {
      addRoute(app, url, { GET: { about: fileOperation, handle: show } });
    }
  }
}

/** Shows browsers the app page wherever they look, but for static files. */
export async function addAppPage(app: FastifyInstance, { options }: ApiContext): Promise<void> {
  const { app: page, rootPrefix, staticPath } = options;
  if (page === undefined) return;
  const file = await findStaticFile(page);
  app.addHook('onRequest', async (request, reply) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const [path = ''] = request.url.split('?');
    const isStatic = path === '/favicon.ico' || path.startsWith(`${rootPrefix}${staticPath}/`);
    const isStatus = options.statusPage && /^\/status(?:\/|$)/.test(path.slice(rootPrefix.length));
    if (!isRead || isStatic || isStatus || !wantsPage(request.headers.accept)) return undefined;
    return sendFile(request, reply, file);
  });
}

async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  found: StaticFile | undefined,
): Promise<FastifyReply> {
  if (found === undefined) throw fileNotFound();
  // A link that took its place since is none of those that were found.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW;
  const file = await open(found.file, flags).catch(() => undefined);
  if (file === undefined) throw fileNotFound();
  const { mtime, size } = await file.stat();
  reply.header('last-modified', mtime.toUTCString()).header('cache-control', 'no-cache');
  const since = Date.parse(request.headers['if-modified-since'] ?? '');
  const isKnown = Math.floor(mtime.getTime() / 1000) * 1000 <= since;
  if (isKnown || request.method === 'HEAD') {
    await file.close();
    if (isKnown) return reply.code(304).send();
    return reply.type(found.type).header('content-length', size).send();
  }
  return reply.type(found.type).send(file.createReadStream());
}

function restOf({ params }: FastifyRequest): string {
  return String(Object.entries(params ?? {}).find(([name]) => name === '*')?.[1] ?? '');
}

/** Never that somebody must log in: pages would take it for the end of a session. */
function fileNotFound(): SaltApiError {
  return new SaltApiError('ERR_HTTP_UNKNOWN', 'no such file');
}
