/** Serves static files and the page of a single-page app. */

import type { Dirent } from 'node:fs';
import { lstat, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ApiContext } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { wantsPage } from '../formats.ts';
import { addRoute } from './route.ts';
import { fileSchema } from './schemas.ts';

/** Maximum number of files in a directory that is served. */
const maxFiles = 10_000;

/**
 * Returns the path of the file that an option names.
 * @throws SaltApiError ERR_HTTP_LISTEN if it is not a file
 */
async function findStaticFile(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() !== true) throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: is not a file`);
  return realpath(file);
}

/**
 * Returns the files below a directory by their URL paths, without symbolic links and names that
 * begin with a dot. The server serves no other file, even if files are added later [THREATS A-19].
 * @throws SaltApiError ERR_HTTP_LISTEN if the directory cannot be read, or has more than 10,000
 * files
 */
async function findStaticFiles(directory: string): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>();
  for (const entry of await list(directory)) {
    const file = path.join(entry.parentPath, entry.name);
    const name = path.relative(directory, file).split(path.sep).join('/');
    if (/(?:^|\/)\./.test(name)) continue;
    if (entry.isFile()) files.set(name, file);
  }
  if (files.size > maxFiles) {
    throw new SaltApiError(
      'ERR_HTTP_LISTEN',
      `${directory}: the directory contains more than ${maxFiles} files`,
    );
  }
  return files;
}

async function list(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { recursive: true, withFileTypes: true });
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_LISTEN', `${directory}: cannot read the directory`, { cause });
  }
}

/**
 * Adds the method `reply.sendFile`. The plugin must not serve directories itself, because it would
 * follow symbolic links.
 */
export async function addFileSending(app: FastifyInstance, { options }: ApiContext): Promise<void> {
  if ((options.static ?? options.app ?? options.favicon) === undefined) return;
  const { default: fastifyStatic } = await import('@fastify/static');
  await app.register(fastifyStatic, {
    serve: false,
    cacheControl: false,
    setHeaders: (reply, file) => {
      reply.header('cache-control', 'no-cache');
      // RFC 9239 defines this type. The plugin still uses `application/javascript`.
      if (/\.m?js$/i.test(file)) reply.type('text/javascript; charset=utf-8');
    },
  });
}

/**
 * Adds the configured files and pages.
 * @throws SaltApiError ERR_HTTP_LISTEN for a missing file
 */
export async function addStaticRoutes(
  app: FastifyInstance,
  { options }: ApiContext,
): Promise<void> {
  const { static: directory, staticPath, app: page, appPath, favicon } = options;
  if (directory !== undefined) {
    const files = await findStaticFiles(directory);
    addRoute(app, `${staticPath}/*`, {
      GET: {
        schema: fileSchema,
        handle: (request, reply) => sendFile(reply, files.get(restOf(request))),
      },
    });
  }
  if (favicon !== undefined) {
    const file = await findStaticFile(favicon);
    addRoute(app, '/favicon.ico', {
      GET: { schema: fileSchema, handle: (_request, reply) => sendFile(reply, file) },
    });
  }
  if (page !== undefined) {
    const file = await findStaticFile(page);
    const show = (_request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
      sendFile(reply, file);
    for (const url of [appPath, `${appPath}/*`]) {
      addRoute(app, url, { GET: { schema: fileSchema, handle: show } });
    }
  }
}

/**
 * Serves the page of the app to browsers at every path, except the paths of static files and of the
 * status page.
 */
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
    return sendFile(reply, file);
  });
}

async function sendFile(reply: FastifyReply, file: string | undefined): Promise<FastifyReply> {
  // If the file was replaced by a link after the start, it is not served.
  const found = file === undefined ? undefined : await lstat(file).catch(() => undefined);
  if (file === undefined || found?.isFile() !== true) throw fileNotFound();
  return reply
    .header('cache-control', 'no-cache')
    .sendFile(path.basename(file), path.dirname(file));
}

function restOf({ params }: FastifyRequest): string {
  return String(Object.entries(params ?? {}).find(([name]) => name === '*')?.[1] ?? '');
}

/**
 * Returns the error for a missing file. Its status is never 401, because pages would treat this as
 * the end of the session.
 */
function fileNotFound(): SaltApiError {
  return new SaltApiError('ERR_HTTP_UNKNOWN', 'file not found');
}
