/** Writes large responses of the bridge as JSON in steps, and limits the memory that they take. */

import { hash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { HttpServerContext } from '#master';
import {
  addressOwner,
  Budget,
  isSmallJson,
  type JsonForm,
  LimitExceeded,
  StepScheduler,
  writeJson,
  writeJsonInSteps,
} from '#runtime';
import { isPlainMap } from '../commands/command-definition.ts';
import { bridgeLimits } from '../limits.ts';

const plainJson: JsonForm = {
  write: (value) => writeJson(value ?? null),
  open: (value) => {
    if (typeof value === 'string' || Array.isArray(value)) return value;
    if (!isPlainMap(value)) return undefined;
    return { members: Object.entries(value).filter(([, item]) => item !== undefined) };
  },
  comma: ',',
  colon: ':',
};

/** Yields a value as JSON. Each turn of the event loop writes a small part of the text. */
export async function* jsonInSteps(value: unknown): AsyncGenerator<string, void, void> {
  const pieces: string[] = [];
  const steps = writeJsonInSteps(value, plainJson, (piece) => pieces.push(piece));
  while (steps.next().done !== true) {
    yield pieces.splice(0).join('');
    await turn();
  }
}

/** Response that was written in steps. */
class WrittenAnswer {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

interface WrittenAnswersOptions {
  readonly tokenOf: HttpServerContext['tokenOf'];
  /** Counts the bytes of large responses. */
  readonly budget?: Budget;
}

/**
 * Counts the bytes of a response towards the limit of its token, until the response closes.
 * @param write - writes the response into memory, and takes the bytes of each piece
 * @throws LimitExceeded if the token, or all tokens together, hold too many bytes
 */
export type HoldAnswer = (
  reply: FastifyReply,
  write: (take: (bytes: number) => void) => void | Promise<void>,
) => Promise<void>;

/** Context of the routes of the bridge. */
export interface BridgeHttpContext extends HttpServerContext {
  /** Must be called for each large response that is sent as a stream or as bytes. */
  readonly holdAnswer: HoldAnswer;
}

function createHold({ tokenOf, budget }: Required<WrittenAnswersOptions>): HoldAnswer {
  return async ({ request, raw }, write) => {
    const owner = hash('sha256', tokenOf(request) ?? addressOwner(request.ip));
    let held = 0;
    const release = (): void => budget.release(owner, held);
    const take = (bytes: number): void => {
      if (!budget.tryTake(owner, bytes)) throw new LimitExceeded(bridgeLimits.answerBytes);
      held += bytes;
    };
    try {
      await write(take);
    } catch (error) {
      release();
      throw error;
    }
    if (raw.closed) release();
    else raw.once('close', release);
  };
}

/**
 * Writes the responses of all routes as JSON. Writes large ones in steps, and counts their bytes
 * towards the limit of their token until they are sent.
 * @returns a function that counts the bytes of responses that their routes write themselves
 */
export function writeAnswersInSteps(
  app: FastifyInstance,
  { tokenOf, budget = new Budget(bridgeLimits.answerBytes) }: WrittenAnswersOptions,
): HoldAnswer {
  const scheduler = new StepScheduler();
  const hold = createHold({ tokenOf, budget });
  app.addHook('preSerialization', async (_request, reply, payload) => {
    if (isSmallJson(payload)) return payload;
    const pieces: string[] = [];
    await hold(reply, (take) =>
      scheduler.run(
        writeJsonInSteps(payload, plainJson, (piece) => {
          take(piece.length);
          pieces.push(piece);
        }),
      ),
    );
    return new WrittenAnswer(pieces.join(''));
  });
  app.setReplySerializer((payload) =>
    payload instanceof WrittenAnswer ? payload.text : writeJson(payload),
  );
  return hold;
}
