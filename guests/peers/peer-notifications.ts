/**
 * Receives notifications of Nova and Neutron, which a publisher such as Ceilometer sends over HTTP.
 * The content of a notification is not trusted. A notification only makes the bridge read the named
 * instances again.
 */

import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { BridgeError, describeRoute } from '#heat-bridge';
import { AuthenticationError } from '#master';
import { compileSchema, isSameSecret, TokenBuckets, tryParseJson } from '#runtime';
import { guestLimits } from '../limits.ts';

const bodyLimit = 1_048_576;
/** Maximum number of notifications in one request. */
const maxNotifications = 1000;
/** Form of instance ids in both services. */
const idForm = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i;
/** Form of event types that change the list of instances or their ports. */
const eventForm = /^(?:(?:compute\.)?instance|port)\./;

const Notification = compileSchema(
  Type.Object({
    event_type: Type.String({ maxLength: 255 }),
    /**
     * Content of the notification. Nova sends `nova_object.data` or an older form, and Neutron
     * sends `port`.
     */
    payload: Type.Optional(Type.Object({}, { additionalProperties: true })),
    /** Traits of Ceilometer events: name, type and value. */
    traits: Type.Optional(Type.Array(Type.Array(Type.Unknown()), { maxItems: 200 })),
  }),
);

/**
 * Returns the instances that notifications name, at most `maxNotifications`.
 * @param body - unvalidated body of the request
 */
export function instancesInNotifications(body: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (list.length > maxNotifications) {
    throw new BridgeError(
      'ERR_ENROLL_ARGS',
      `a request may have at most ${maxNotifications} notifications`,
    );
  }
  const ids = list.flatMap((each) => {
    const opened = withoutEnvelope(each);
    if (!Notification.Check(opened) || !eventForm.test(opened.event_type)) return [];
    const id = instanceOf(opened.payload, opened.traits ?? []);
    return id === undefined ? [] : [id];
  });
  return [...new Set(ids)];
}

/** Unwraps an oslo.messaging 2.0 envelope, which contains the notification as JSON text. */
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
  summary: 'Accepts notifications of Nova and Neutron, and reads the named instances again',
  access: 'credentials',
  body: Type.Unknown(),
  answer: Type.Object({ instances: Type.Integer() }),
});

/**
 * Adds the route `POST notifications`. Senders authenticate with HTTP Basic authentication, with
 * the secret as the password.
 * @param onChanged - receives the ids of instances that may have changed
 */
export function addNotificationRoute(
  app: FastifyInstance,
  secret: string,
  onChanged: (instances: readonly string[]) => void,
): void {
  const rates = new TokenBuckets(guestLimits.notificationRate);
  app.post('/notifications', { bodyLimit, schema: operation }, async (request) => {
    const [, credentials = ''] = /^Basic (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    const [, password = ''] = /^[^:]*:(.*)$/s.exec(decodeBase64(credentials)) ?? [];
    if (!isSameSecret(password, secret)) {
      throw new AuthenticationError(
        'ERR_EAUTH_TOKEN',
        'missing or invalid secret for notifications',
      );
    }
    if (!rates.tryTake('all')) {
      throw new AuthenticationError('ERR_EAUTH_LIMIT', 'too many notifications; retry later');
    }
    const instances = instancesInNotifications(request.body);
    if (instances.length > 0) onChanged(instances);
    return { instances: instances.length };
  });
}

function decodeBase64(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8');
}
