import type { Call, MinionSubject } from '#acl';
import { isWireMap, type WireValue } from '#minion-protocol';
import type { RecordedDecision } from '../api/index.ts';
import type { MinionQuestion } from './decision-samples.ts';

/**
 * Converts a record of decisions to questions that a policy can decide: one for each sample, or a
 * single one if there are no samples.
 */
export function questionsOf(record: RecordedDecision): MinionQuestion[] {
  const samples: readonly (WireValue | undefined)[] =
    record.samples.length > 0 ? record.samples : [undefined];
  return samples.flatMap((sample) => questionOf(record, sample) ?? []);
}

function questionOf(
  record: RecordedDecision,
  sample: WireValue | undefined,
): MinionQuestion | undefined {
  const { action, texts, owner, minions = [] } = record;
  const [text = ''] = texts;
  const subject: MinionSubject = { kind: 'minion', id: record.minion };
  switch (action) {
    case 'signal': {
      const wasPublishedToSubject = (): boolean => false;
      const resource = {
        tag: text,
        data: sample,
        bytes: () => record.bytes,
        wasPublishedToSubject,
      };
      return { subject, action, resource };
    }
    case 'publish': {
      return { subject, action, resource: { calls: callsOf(record, sample), minions } };
    }
    case 'runner':
    case 'wheel': {
      const [call] = callsOf(record, sample);
      return call && { subject, action, resource: { call } };
    }
    case 'command': {
      const [call] = callsOf(record, sample);
      return call && { subject, action, resource: { call, minions } };
    }
    case 'mine': {
      const resource = owner === undefined ? { fun: text } : { fun: text, owner };
      return { subject, action, resource };
    }
    case 'file-send':
      return { subject, action, resource: { path: text } };
    case 'pillar':
      return { subject, action, resource: { environment: text } };
    case 'key':
      return { subject, action, resource: { operation: text } };
    case 'subscribe':
      return { subject, action, resource: { tag: text } };
  }
}

function callsOf({ texts }: RecordedDecision, sample: WireValue | undefined): Call[] {
  const kept = Array.isArray(sample) ? sample : [];
  return texts.map((fun, index) => {
    const call = kept[index];
    const args = isWireMap(call) && Array.isArray(call.args) ? call.args.map(String) : [];
    const kwargs = isWireMap(call) && isWireMap(call.kwargs) ? Object.entries(call.kwargs) : [];
    return { fun, args, kwargs: new Map(kwargs.map(([name, value]) => [name, String(value)])) };
  });
}
