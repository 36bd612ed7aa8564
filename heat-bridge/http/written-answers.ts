/** Writes large responses of the bridge as JSON in steps, and limits the memory that they take. */

import { hash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
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
 * Writes the responses of all routes as JSON. Writes large ones in steps, and counts their bytes
 * towards the limit of their token until they are sent.
 */
export function writeAnswersInSteps(
  app: FastifyInstance,
  { tokenOf, budget = new Budget(bridgeLimits.answerBytes) }: WrittenAnswersOptions,
): void {
  const scheduler = new StepScheduler();
  app.addHook('preSerialization', async (request, { raw }, payload) => {
    if (isSmallJson(payload)) return payload;
    const owner = hash('sha256', tokenOf(request) ?? addressOwner(request.ip));
    let held = 0;
    const release = (): void => budget.release(owner, held);
    const pieces: string[] = [];
    const take = (piece: string): void => {
      if (!budget.tryTake(owner, piece.length)) throw new LimitExceeded(bridgeLimits.answerBytes);
      held += piece.length;
      pieces.push(piece);
    };
    try {
      await scheduler.run(writeJsonInSteps(payload, plainJson, take));
    } catch (error) {
      release();
      throw error;
    }
    if (raw.closed) release();
    else raw.once('close', release);
    return new WrittenAnswer(pieces.join(''));
  });
  app.setReplySerializer((payload) =>
    payload instanceof WrittenAnswer ? payload.text : writeJson(payload),
  );
}
