/** Events as the interface gives them: see ../api.ts. */
import { compileGlob } from '../../minion-protocol/index.ts';
import type { EventsApi } from '../api.ts';
import type { EventBus } from './bus.ts';

export function createBusApi(bus: EventBus): Pick<EventsApi, 'subscribe' | 'fire'> {
  return {
    subscribe: (request = {}, signal) =>
      bus.subscribe({
        ...(request.match === undefined ? {} : { accepts: compileGlob(request.match) }),
        ...(signal === undefined ? {} : { signal }),
      }),
    fire: async (tag, data) => bus.fire(tag, data),
  };
}
