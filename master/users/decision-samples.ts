import { type Call, type Decision, type MinionSubject, type Question, questionText } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { RecordedDecision } from '../api/index.ts';
import { shapeOf, withoutValues } from './shapes.ts';

/** Question of a minion that rules of the policy can decide. */
export type MinionQuestion = Exclude<Question, { action: 'return' }> & {
  readonly subject: MinionSubject;
};

/** Properties of a decision. Decisions with equal properties are counted in the same record. */
export type DecisionSubject = Pick<
  RecordedDecision,
  'action' | 'effect' | 'minion' | 'minions' | 'owner' | 'rule' | 'texts'
>;

/** Variable part of a question: the data of an event, or the calls of a job. */
export interface Sample {
  /** Shape of the value, or `undefined` if the value cannot be stored. */
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
 * Returns the key of a record. It is unambiguous, because ids and rule names contain no line feed.
 */
export function keyOf(subject: DecisionSubject): string {
  const { minion, action, texts, owner = '', minions = [], effect, rule } = subject;
  const [text = ''] = texts;
  if (action === 'signal') return signalKey(effect, minion, rule, text);
  return JSON.stringify([action, effect, minion, rule, texts, owner, minions]);
}

/**
 * Returns the same key as {@link keyOf}. Most questions are about events, so the key of an event is
 * computed without creating a record.
 */
export function keyOfQuestion(question: MinionQuestion, decision: Decision): string {
  if (question.action !== 'signal') return keyOf(subjectOf(question, decision));
  const { subject, resource } = question;
  return signalKey(decision.effect, subject.id, decision.rule, resource.tag);
}

function signalKey(effect: string, minion: string, rule: string, tag: string): string {
  return `${effect}\n${minion}\n${rule}\n${tag}`;
}

/** Returns the variable part of a question, or `undefined` if it has none. */
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

/** Returns the stored form of a sample, or `undefined` if the sample is too large. */
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
