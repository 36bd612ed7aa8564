/** ZAQAR_SIGNAL: a message in a queue that Heat reads once a second. */
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { writeJson } from '../../../runtime/index.ts';
import { type Outcome, outcomeOf } from '../outcome.ts';
import type { Delivery, DestinationOf } from './delivery.ts';
import { logIn } from './keystone.ts';

const isCatalog = Compile(
  Type.Object({
    token: Type.Object({
      catalog: Type.Array(
        Type.Object({
          type: Type.String(),
          endpoints: Type.Array(
            Type.Object({
              interface: Type.String(),
              url: Type.String(),
              region: Type.Optional(Type.Union([Type.String(), Type.Null()])),
            }),
          ),
        }),
      ),
    }),
  }),
);

/** Zaqar's own bounds, seconds. */
const [leastTtl, mostTtl] = [60, 1_209_600];

/** Any UUID will do, as long as it stays the same. */
const clientId = '6f0e2f0c-7a5e-4f0e-9c4e-5a17b41d6e00';

/**
 * Logs in for every signal: Zaqar takes messages for a while after their stack is gone, and the
 * log-in is the only sign of that.
 */
export async function deliverZaqarSignal(
  delivery: Delivery<DestinationOf<'ZAQAR_SIGNAL'>>,
): Promise<Outcome> {
  const { destination, signal, signalId, expiresAt, now } = delivery;
  const login = await logIn(delivery.ask, destination);
  if (!login.isIn) return login.outcome;
  const service = messagingService(login.body, destination.regionName);
  if (service === undefined) {
    return { kind: 'final', reason: 'the log-in names no public messaging service of the region' };
  }
  const ttl = Math.ceil((expiresAt - now()) / 1000);
  const exchange = await delivery.ask({
    method: 'POST',
    url: `${service.replace(/\/+$/, '')}/v2/queues/${encodeURIComponent(destination.queueId)}/messages`,
    headers: { 'x-auth-token': login.token, 'client-id': clientId },
    body: writeJson({
      messages: [
        {
          body: { ...signal, id: signalId },
          ttl: Math.min(mostTtl, Math.max(leastTtl, ttl)),
        },
      ],
    }),
  });
  return outcomeOf(exchange, [201]);
}

function messagingService(body: string, region: string | undefined): string | undefined {
  const answer = tryJson(body);
  if (!isCatalog.Check(answer)) return undefined;
  const url = answer.token.catalog
    .filter(({ type }) => type === 'messaging')
    .flatMap(({ endpoints }) => endpoints)
    .find((it) => it.interface === 'public' && (region === undefined || it.region === region))?.url;
  return url !== undefined && /^https?:\/\//.test(url) && URL.canParse(url) ? url : undefined;
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
