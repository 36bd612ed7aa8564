/** Static files and the app page [CONTRACT 3.6]. */
import { constants, open } from 'node:fs/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ApiContext } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { wantsPage } from '../formats.ts';
import { fileOperation } from '../operations.ts';
import { findFile, findFiles, type StaticFile } from '../static-files.ts';
import { addResource } from './resource.ts';

/** Adds what is configured. @throws SaltApiError ERR_HTTP_LISTEN for what is not there */
export async function addStaticRoutes(
  app: FastifyInstance,
  { options }: ApiContext,
): Promise<void> {
  const { static: directory, staticPath, app: page, appPath, favicon } = options;
  if (directory !== undefined) {
    const files = await findFiles(directory);
    addResource(app, `${staticPath}/*`, {
      GET: {
        about: fileOperation,
        // protection: static-paths
        handle: (request, reply) => sendFile(request, reply, files.get(restOf(request))),
      },
    });
  }
  if (favicon !== undefined) {
    const file = await findFile(favicon);
    addResource(app, '/favicon.ico', {
      GET: { about: fileOperation, handle: (request, reply) => sendFile(request, reply, file) },
    });
  }
  if (page !== undefined) {
    const file = await findFile(page);
    const show = (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
      sendFile(request, reply, file);
    for (const url of [appPath, `${appPath}/*`]) {
      addResource(app, url, { GET: { about: fileOperation, handle: show } });
    }
  }
}

/** Shows browsers the app page wherever they look, but for static files. */
export async function addAppPage(app: FastifyInstance, { options }: ApiContext): Promise<void> {
  const { app: page, rootPrefix, staticPath } = options;
  if (page === undefined) return;
  const file = await findFile(page);
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
  if (found === undefined) throw notThere();
  // A link that took its place since is none of those that were found.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW;
  const file = await open(found.file, flags).catch(() => undefined);
  if (file === undefined) throw notThere();
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
function notThere(): SaltApiError {
  return new SaltApiError('ERR_HTTP_UNKNOWN', 'no such file');
}
