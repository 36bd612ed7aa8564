/** `POST /keys`: creates a key pair and accepts it for a new minion. */

import type { FastifyRequest } from 'fastify';
import type { MasterApi } from '#master';
import { numberOf } from '#minion-protocol';
import { requireClient } from '../clients.ts';
import { type ApiContext, bodyOf } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import type { Lowstate } from '../lowstate.ts';
import { packTar } from '../tar.ts';
import { loginForms } from './login.ts';
import { identifyCaller } from './root.ts';
import type { RouteMethod } from './route.ts';
import { newKeysSchema } from './schemas.ts';

type CreatedKey = NonNullable<Awaited<ReturnType<MasterApi['keys']['create']>>>;

/**
 * Creates the method `POST /keys`, which responds with a tar archive of the new key pair. The body
 * of a request contains the credentials, as for `/run`. If no key is created, the files in the
 * archive are empty.
 */
export function newKeysMethod(context: ApiContext): RouteMethod {
  return {
    schema: newKeysSchema,
    handle: async (request, reply) => {
      requireClient(context, 'wheel');
      const form = await formOf(context, request);
      const id = textIn(form, 'mid');
      const { caller, leave } = await identifyCaller(context, form, request.ip);
      try {
        const bits = numberIn(form, 'keysize');
        const key = await caller.user.keys.create({
          id,
          force: isSet(form.force),
          ...(bits === undefined ? {} : { bits }),
        });
        reply.header('content-disposition', `attachment; filename="saltkeys-${fileName(id)}.tar"`);
        return reply
          .header('cache-control', 'no-cache')
          .type('application/x-tar')
          .send(packKeyPair(key ?? noKey));
      } finally {
        await leave();
      }
    },
  };
}

const noKey: CreatedKey = { publicPem: '', privatePem: '' };

function packKeyPair({ publicPem, privatePem }: CreatedKey): Buffer {
  const members = [
    { name: 'minion.pub', content: Buffer.from(publicPem), mode: 0o644 },
    { name: 'minion.pem', content: Buffer.from(privatePem), mode: 0o400 },
  ];
  return packTar(members, new Date());
}

async function formOf(context: ApiContext, request: FastifyRequest): Promise<Lowstate> {
  const [form] = loginForms((await bodyOf(context, request)).value);
  if (form === undefined)
    throw new SaltApiError(
      'ERR_HTTP_BODY',
      'the body must be a map with mid (the minion id) and credentials',
    );
  return form;
}

function textIn(form: Lowstate, name: string): string {
  const value = form[name];
  if (typeof value === 'string' && value !== '') return value;
  throw new SaltApiError('ERR_HTTP_FIELDS', `${name}: must be text`);
}

function numberIn(form: Lowstate, name: string): number | undefined {
  const value = form[name];
  if (value === undefined || value === null || value === '') return undefined;
  const number = numberOf(value);
  if (number !== undefined && Number.isSafeInteger(number)) return number;
  throw new SaltApiError('ERR_HTTP_FIELDS', `${name}: must be a number`);
}

/** Whether a form field is set to true. The value of a form field is always text. */
function isSet(value: unknown): boolean {
  return value === true || (typeof value === 'string' && /^(?:true|1|yes|on)$/i.test(value));
}

/** Returns a file name for a minion id. Characters that are unsafe in file names become `_`. */
function fileName(id: string): string {
  return id.replace(/[^\w.-]/g, '_').slice(0, 100);
}
