/** `_register_resources`: what a minion of 3008 manages besides itself [WIRE 23.3]. */
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { KnownResources } from '../targeting/resources.ts';
import { type Handler, send } from './request.ts';

/** What the handler needs. */
export interface ResourceHandlerOptions {
  readonly resources: KnownResources;
  readonly bus: EventBus;
  readonly counters: RequestCounters;
  /** `minion_data_cache_events`. */
  readonly hasEvents: boolean;
}

export function resourcesHandler({
  resources,
  bus,
  counters,
  hasEvents,
}: ResourceHandlerOptions): Handler {
  return async ({ minionId, load }) => {
    if (minionId === undefined) return send({});
    const isKept = await resources.keep(minionId, {
      resources: load.resources,
      grains: load.resource_grains,
    });
    if (!isKept) {
      counters.count('resources-refused');
      return send(false);
    }
    if (hasEvents) {
      bus.fire(tags.resourcesRefreshed(minionId), { 'Resource cache refresh': minionId });
    }
    return send(true);
  };
}
