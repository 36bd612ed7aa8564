/** Route `POST /site/v1/join`, through which a site presents its ticket and its new key. */

import { createHash, type KeyObject } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { ExtensionHost, HttpServerContext } from '#master';
import { codeOf } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { CentreConnections } from '../link/centre-connections.ts';
import { signParts } from './ed25519.ts';
import { checkJoinRequest, type JoinReply, signedReply } from './join-message.ts';
import type { SiteRegistry } from './site-registry.ts';
import { readTicket } from './tickets.ts';

export interface JoinRouteOptions {
  readonly host: Pick<ExtensionHost, 'audit' | 'logger'>;
  readonly key: KeyObject;
  readonly sites: SiteRegistry;
  readonly links: Pick<CentreConnections, 'isPermitted' | 'noteRefused'>;
  readonly trustRoot: () => Promise<Uint8Array | undefined>;
}

/** Adds the route `POST /join`. Limits the rate of rejected tickets for each client address. */
export function addJoinRoute(
  app: FastifyInstance,
  { readJson }: Pick<HttpServerContext, 'readJson'>,
  { host, key, sites, links, trustRoot }: JoinRouteOptions,
): void {
  app.addContentTypeParser('application/json', readJson);
  app.setErrorHandler((error, _request, reply) => {
    const { code, message, status } = problemOf(error);
    if (status === 500)
      host.logger.error({ err: error }, 'internal error while a site joined this centre');
    return reply.code(status).send({ error: { code, message } });
  });
  app.addHook('onRequest', async ({ ip }) => {
    if (!links.isPermitted(ip)) {
      throw new EdgeError('ERR_SITE_LINK', 'too many rejected tickets; retry later');
    }
  });
  app.post('/join', async ({ body, ip }): Promise<JoinReply> => {
    try {
      if (!checkJoinRequest.Check(body)) {
        throw new EdgeError('ERR_SITE_TICKET', 'the request is malformed');
      }
      const siteKey = Buffer.from(body.key, 'base64url');
      const proof = Buffer.from(body.proof, 'base64url');
      const root = readTicket(body.ticket).root === undefined ? undefined : await trustRoot();
      const { name, isNew } = await sites.join(body.ticket, siteKey, proof);
      const signature = signParts(key, ...signedReply(body.ticket, siteKey, root));
      // A site may repeat its request without limit.
      if (isNew) {
        host.audit.append({
          who: { kind: 'service', name: `site ${name}` },
          action: 'site.join',
          what: createHash('sha256').update(siteKey).digest('hex'),
          outcome: 'done',
        });
      }
      return {
        name,
        signature: signature.toString('base64url'),
        ...(root === undefined ? {} : { root: Buffer.from(root).toString('base64') }),
      };
    } catch (error) {
      if (error instanceof EdgeError) links.noteRefused(ip);
      throw error;
    }
  });
}

function problemOf(error: unknown): {
  readonly code: string;
  readonly message: string;
  readonly status: number;
} {
  if (error instanceof EdgeError) {
    const { code, message } = error;
    return { code, message, status: code === 'ERR_SITE_LINK' ? 429 : 403 };
  }
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  if (status < 500)
    return { code: codeOf(error) ?? 'ERR_ARGS', message: 'malformed request', status };
  return {
    code: 'ERR_INTERNAL',
    message: 'internal error of the centre; see its log',
    status: 500,
  };
}
