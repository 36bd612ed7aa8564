/**
 * HTTPS route through which guests send signals without a running minion, for example from a shell
 * script.
 */

import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { BridgeError, describeRoute, type SignalsModule } from '#heat-bridge';
import { AuthenticationError, AuthorizationError, type ExtensionHost } from '#master';
import { isWireMap, type WireMap } from '#minion-protocol';
import { readJsonInSteps, StepScheduler, TokenBuckets } from '#runtime';
import { guestLimits } from '../limits.ts';
import { textOf } from '../request-body.ts';
import type { GuestIdentifier } from './guest-identifier.ts';

/**
 * Maximum size of a request body, in bytes. This limit is higher than the maximum size of a signal.
 * A signal that is too large can therefore be read, and then rejected with an error that states the
 * maximum size of a signal.
 */
const bodyLimit = 1_048_576;
const maxValues = 100_000;

const operation = describeRoute({
  summary: 'Signals a handle as the minion of the machine: status, reason and data',
  query: { alias: Type.String() },
  body: Type.String(),
  bodyTypes: ['text/plain'],
  answer: Type.Object({}),
});

export interface GuestSignalDeps {
  readonly host: Pick<ExtensionHost, 'decide'>;
  readonly guestOf: GuestIdentifier;
  readonly intake: Pick<SignalsModule['intake'], 'accept'>;
}

/**
 * Adds the route `POST guest/signals?alias=ALIAS`. A policy rule for the action `signal` must
 * permit the guest's minion to send the event `heat/ALIAS`. The signal is durable when the response
 * is sent.
 */
export function addGuestSignalRoute(
  app: FastifyInstance,
  { host, guestOf, intake }: GuestSignalDeps,
): void {
  const rates = new TokenBuckets(guestLimits.signalRate);
  const scheduler = new StepScheduler();
  app.post<{ readonly Querystring: Readonly<Record<string, string>> }>(
    '/guest/signals',
    { bodyLimit, schema: operation },
    async (request): Promise<object> => {
      const { minion } = await guestOf(request);
      if (!rates.tryTake(minion)) {
        throw new AuthenticationError(
          'ERR_EAUTH_LIMIT',
          'too many signals of this machine within a short time; retry later',
        );
      }
      const tag = `heat/${request.query.alias ?? ''}`;
      const text = textOf(request.body);
      const data = await parseSignalText(text, scheduler);
      const resource = {
        tag,
        data,
        bytes: () => Buffer.byteLength(text),
        wasPublishedToSubject: () => false,
      };
      const subject = { kind: 'minion', id: minion } as const;
      const { effect } = host.decide({ subject, action: 'signal', resource });
      if (effect !== 'allow') {
        throw new AuthorizationError("no rule permits this machine's minion to send the signal");
      }
      const taken = await intake.accept({ tag, data, sender: minion, request: undefined });
      if (taken.kind === 'accepted') return {};
      throw new BridgeError(
        taken.isFull ? 'ERR_SIGNAL_QUOTA' : 'ERR_HANDLE_UNKNOWN',
        `the signal was rejected: ${taken.reason}`,
      );
    },
  );
}

/**
 * Parses a signal.
 * @throws BridgeError ERR_HANDLE_FORM, whose message does not contain the text
 */
async function parseSignalText(text: string, scheduler: StepScheduler): Promise<WireMap> {
  try {
    const value = await scheduler.run(readJsonInSteps(text, { maxValues, isStrict: true }));
    if (isWireMap(value)) return value;
  } catch {
    // Omit the parser's message, because it contains part of the text.
  }
  throw new BridgeError('ERR_HANDLE_FORM', 'the signal must be a JSON object');
}
