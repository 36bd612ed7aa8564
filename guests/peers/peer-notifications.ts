/**
 * Notifications of Nova and Neutron, as a pipeline of OpenStack posts them over HTTP. Nothing of one
 * is believed but that something may have changed: the instances that it names are read anew.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { BridgeError, describeRoute } from '#heat-bridge';
import { AuthenticationError } from '#master';
import { compileSchema, TokenBuckets, tryParseJson } from '#runtime';

/** Of all senders: they share one secret. */
const rate = { perSecond: 20, burst: 200 };
const bodyLimit = 1_048_576;
/** Notifications of one request. */
const maxNotifications = 1000;
/** By which both services name instances. */
const idForm = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i;
/** Those by which the list of instances or their ports change. */
const eventForm = /^(?:(?:compute\.)?instance|port)\./;

const Notification = compileSchema(
  Type.Object({
    event_type: Type.String({ maxLength: 255 }),
    /** Nova: versioned `nova_object.data`, or the older form; Neutron: `port`. */
    payload: Type.Optional(Type.Object({}, { additionalProperties: true })),
    /** Ceilometer's events: name, kind and value. */
    traits: Type.Optional(Type.Array(Type.Array(Type.Unknown()), { maxItems: 200 })),
  }),
);

/** The instances that notifications name; at most `maxNotifications`. @param body - as it came */
export function instancesInNotifications(body: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (list.length > maxNotifications) {
    throw new BridgeError('ERR_ENROLL_ARGS', `expected at most ${maxNotifications} notifications`);
  }
  const ids = list.flatMap((each) => {
    const opened = withoutEnvelope(each);
    if (!Notification.Check(opened) || !eventForm.test(opened.event_type)) return [];
    const id = instanceOf(opened.payload, opened.traits ?? []);
    return id === undefined ? [] : [id];
  });
  return [...new Set(ids)];
}

/** oslo.messaging: version 2.0 has the notification as a text within. */
function withoutEnvelope(given: unknown): unknown {
  const message = Object(given)['oslo.message'];
  return typeof message === 'string' ? tryParseJson(message) : given;
}

function instanceOf(payload: unknown, traits: readonly (readonly unknown[])[]): string | undefined {
  const fields = Object(payload);
  const traitOf = (name: string): unknown => traits.find(([it]) => it === name)?.[2];
  const candidates: readonly unknown[] = [
    Object(fields['nova_object.data']).uuid,
    fields.instance_id,
    Object(fields.port).device_id,
    traitOf('instance_id'),
    traitOf('device_id'),
    traitOf('resource_id'),
  ];
  const id = candidates.find((it) => typeof it === 'string' && idForm.test(it));
  return typeof id === 'string' ? id.toLowerCase() : undefined;
}

const operation = describeRoute({
  summary: 'Notifications of Nova and Neutron: the instances that they name are read anew',
  access: 'credentials',
  body: Type.Unknown(),
  answer: Type.Object({ instances: Type.Integer() }),
});

/**
 * `POST notifications`, with the secret as password of HTTP's Basic authentication, which the
 * publishers of OpenStack have.
 * @param onChanged - told of instances that may have changed
 */
export function addNotificationRoute(
  app: FastifyInstance,
  secret: string,
  onChanged: (instances: readonly string[]) => void,
): void {
  const rates = new TokenBuckets(rate);
  const expected = digestOf(secret);
  app.post('/notifications', { bodyLimit, schema: operation }, async (request) => {
    const [, credentials = ''] = /^Basic (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    const [, password = ''] = /^[^:]*:(.*)$/s.exec(decodeBase64(credentials)) ?? [];
    if (!timingSafeEqual(digestOf(password), expected)) {
      throw new AuthenticationError('ERR_EAUTH_TOKEN', 'this is not the secret of notifications');
    }
    if (!rates.tryTake('all')) {
      throw new AuthenticationError('ERR_EAUTH_LIMIT', 'too many notifications');
    }
    const instances = instancesInNotifications(request.body);
    if (instances.length > 0) onChanged(instances);
    return { instances: instances.length };
  });
}

function decodeBase64(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8');
}

/** Of one length, whatever was sent. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
