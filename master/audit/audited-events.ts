import type { BusApi } from '../events/bus-api.ts';
import { auditOf } from './requester.ts';
import type { RuledDecisions } from './ruled-decisions.ts';

/** The interface to events, with who fires which of them in the audit log. */
export function auditedEvents(events: BusApi, ruled: RuledDecisions): BusApi {
  return {
    ...events,
    fire: (tag, data, by) => {
      const { who, rule } = auditOf(by, '');
      ruled.note({ who, action: 'fire', what: tag }, { effect: 'allow', rule });
      return events.fire(tag, data);
    },
  };
}
