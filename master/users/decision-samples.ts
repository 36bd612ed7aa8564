import { type Call, type Decision, type MinionSubject, type Question, questionText } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { RecordedDecision } from '../api/index.ts';
import { shapeOf, withoutValues } from './shapes.ts';

/**
 * Question to the policy whether a minion may do something. Questions about returns are excluded,
 * because no rule decides about them.
 */
export type MinionQuestion = Exclude<Question, { action: 'return' }> & {
  readonly subject: MinionSubject;
};

/**
 * Properties by which decisions are grouped: decisions with equal properties are counted in the
 * same record.
 */
export type DecisionSubject = Pick<
  RecordedDecision,
  'action' | 'effect' | 'minion' | 'minions' | 'owner' | 'rule' | 'texts'
>;

/**
 * Content of a question to the policy that varies from request to request: the data of an event, or
 * the calls of a job.
 */
export interface Sample {
  /**
   * Text that describes the structure of the value without its contents. Values with the same shape
   * are recorded only once. `undefined` if the value cannot be stored.
   */
  readonly shape: string | undefined;
  readonly value: () => WireValue;
}

/** Maximum size of one sample as JSON, in bytes. */
const maxSampleBytes = 2048;

export function subjectOf(question: MinionQuestion, { effect, rule }: Decision): DecisionSubject {
  const { action } = question;
  const texts =
    action === 'publish' ? question.resource.calls.map(({ fun }) => fun) : [questionText(question)];
  const minions = action === 'publish' ? question.resource.minions : undefined;
  const owner = action === 'mine' ? question.resource.owner : undefined;
  return {
    minion: question.subject.id,
    action,
    texts,
    ...(owner === undefined ? {} : { owner }),
    ...(minions === undefined ? {} : { minions }),
    effect,
    rule,
  };
}

/**
 * Returns the key under which a decision is recorded. It is unambiguous, because ids and rule names
 * contain no line feed.
 */
export function keyOf(subject: DecisionSubject): string {
  const { minion, action, texts, owner = '', minions = [], effect, rule } = subject;
  const [text = ''] = texts;
  if (action === 'signal') return signalKey(effect, minion, rule, text);
  return JSON.stringify([action, effect, minion, rule, texts, owner, minions]);
}

/**
 * Returns the key under which the decision about a question (a minion's request) is recorded, like
 * {@link keyOf}. For events, it does so without creating a {@link DecisionSubject}, to save time.
 * Most questions are about events.
 */
export function keyOfQuestion(question: MinionQuestion, decision: Decision): string {
  if (question.action !== 'signal') return keyOf(subjectOf(question, decision));
  const { subject, resource } = question;
  return signalKey(decision.effect, subject.id, decision.rule, resource.tag);
}

function signalKey(effect: string, minion: string, rule: string, tag: string): string {
  return `${effect}\n${minion}\n${rule}\n${tag}`;
}

/**
 * Returns the part of a request that is recorded as a sample: the data of an event, the calls of a
 * job, or the call of a function or command. Returns `undefined` for requests without such a part.
 * @param question - request about which the policy decides
 */
export function sampleOf(question: MinionQuestion): Sample | undefined {
  switch (question.action) {
    case 'signal': {
      const data = question.resource.data as WireValue | undefined; // sent by a minion
      // An event without data is recorded too, because no schema permits missing data.
      return { shape: shapeOf(data), value: () => data ?? null };
    }
    case 'publish': {
      const { calls } = question.resource;
      return { shape: calls.map(shapeOfCall).join(), value: () => calls.map(toPlainCall) };
    }
    case 'runner':
    case 'wheel':
    case 'command': {
      const { call } = question.resource;
      return { shape: shapeOfCall(call), value: () => [toPlainCall(call)] };
    }
    default:
      return undefined;
  }
}

/**
 * Returns the form in which a sample is stored, or `undefined` if it is larger than 2048 bytes. A
 * sample contains data of a request.
 * @param storesValues - whether to store the texts and numbers in the data. If false, only the
 * structure of the data is stored
 */
export function storedSample(sample: Sample, storesValues: boolean): WireValue | undefined {
  const value = sample.value();
  // A value that has a shape can be represented in JSON.
  const kept = storesValues ? value : (withoutValues(value) as WireValue);
  return JSON.stringify(kept).length <= maxSampleBytes ? kept : undefined;
}

function shapeOfCall({ args, kwargs }: Call): string {
  return `${args.length}(${[...kwargs.keys()].sort().join()})`;
}

function toPlainCall({ fun, args, kwargs }: Call): WireValue {
  return { fun, args: [...args], kwargs: Object.fromEntries(kwargs) };
}
