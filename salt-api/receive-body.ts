/** Receives request bodies. Limits apply to each sender [THREATS A-17]. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AuthenticationError } from '#master';
import type { BodyBytes } from './body.ts';
import { type ApiContext, tokenFinder } from './context.ts';
import { SaltApiError } from './errors.ts';
import { bearerOf, sessionTokenOf } from './session-token.ts';

/**
 * Function that receives the body of a request.
 * @throws SaltApiError ERR_HTTP_BODY, ERR_HTTP_BUSY
 */
export type ReceiveBody = (request: FastifyRequest, payload: IncomingMessage) => Promise<BodyBytes>;

/**
 * Makes the server receive bodies as bytes. A body without a token may have at most
 * `maxUnauthenticatedBodySize`. All such bodies of one address share a budget until their requests
 * are answered.
 * @returns the function that receives a body, so that other content parsers can call it
 */
export function addBodyReception(app: FastifyInstance, context: ApiContext): ReceiveBody {
  const responses = new WeakMap<IncomingMessage, ServerResponse>();
  const receiveBody: ReceiveBody = (request, payload) =>
    receive(context, request, payload, responses.get(request.raw));
  app.addHook('onRequest', async ({ raw }, reply) => {
    responses.set(raw, reply.raw);
  });
  app.addContentTypeParser('*', receiveBody);
  return receiveBody;
}

async function receive(
  context: ApiContext,
  request: FastifyRequest,
  payload: IncomingMessage,
  response: ServerResponse | undefined,
): Promise<BodyBytes> {
  const { maxUnauthenticatedBodySize } = context.options;
  const { bodyLimit } = request.routeOptions;
  const openLimit = Math.min(bodyLimit, maxUnauthenticatedBodySize);
  const length = Number(request.headers['content-length'] ?? 0);
  if (length > bodyLimit) throw tooLarge(bodyLimit);
  let limit = openLimit;
  const admit = async (bytes: number): Promise<void> => {
    if (bytes <= limit) return;
    // The sender is identified only if the body is larger than the limit for unidentified senders.
    if (limit === bodyLimit || !(await isCaller(context, request))) throw tooLarge(limit);
    limit = bodyLimit;
    if (bytes > limit) throw tooLarge(limit);
  };
  await admit(length);
  const hold = hasSession(context, request) ? () => {} : holderOf(context, request, response);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of payload) {
    bytes += chunk.length;
    await admit(bytes);
    hold(chunk.length);
    chunks.push(chunk);
  }
  return chunks;
}

/**
 * Returns a function that counts bytes of a request body towards the budget of the client's
 * address. The bytes count until the response closes.
 */
function holderOf(
  { anonymousBodyBudget: openBodies, connections }: ApiContext,
  { raw }: FastifyRequest,
  response: ServerResponse | undefined,
): (bytes: number) => void {
  const owner = connections.ownerOf(raw);
  let held = 0;
  response?.once('close', () => openBodies.release(owner, held));
  return (bytes) => {
    if (!openBodies.tryTake(owner, bytes)) throw tooMany();
    held += bytes;
  };
}

function hasSession({ sessions }: ApiContext, { headers }: FastifyRequest): boolean {
  const shown = sessionTokenOf(headers);
  return shown !== undefined && sessions.find(shown) !== undefined;
}

async function isCaller(context: ApiContext, request: FastifyRequest): Promise<boolean> {
  const token = bearerOf(request.headers) ?? tokenFinder(context)(request);
  if (token === undefined) return false;
  try {
    await context.master.logins.identify(token);
    return true;
  } catch (error) {
    if (error instanceof AuthenticationError) return false;
    throw error;
  }
}

function tooMany(): SaltApiError {
  return new SaltApiError(
    'ERR_HTTP_BUSY',
    'too much request data from this address is being processed; retry later',
  );
}

function tooLarge(limit: number): SaltApiError {
  const message = `the body is too large; the maximum is ${limit} bytes`;
  return new SaltApiError('ERR_HTTP_BODY', message, { status: 413 });
}
