/** Extension of the bridge that provides signals. */

import { masterServices } from '#master';
import type { BridgeExtensionModule } from '../bridge-extension.ts';
import { sectionProblems } from '../section-problems.ts';
import { bridgeServices } from '../services.ts';
import { openSignals } from './open-signals.ts';
import { addSignalRoutes } from './signal-routes.ts';
import { parseSignalsOptions } from './signals-options.ts';

export const signalsExtension: BridgeExtensionModule = {
  check: ({ sections }) => sectionProblems('bridge:handles', sections.handles, parseSignalsOptions),
  open: async (host, { sections, traces }) => {
    const enrolment = host.find(bridgeServices.enrolment);
    const projectOf = enrolment?.projectOf ?? (() => undefined);
    const { bus: events } = host.use(masterServices.events);
    const signals = await openSignals({ ...host, events }, sections.handles, {
      projectOf,
      isEnrolling: (id) => enrolment?.enrolments.liveOf(id) !== undefined,
      traces,
    });
    host.provide(bridgeServices.signals, signals);
    enrolment?.api.onRetire((id) => signals.dismiss(id));
    enrolment?.onRelease((id, owner) => signals.release(id, owner));
    const { intake, rpc, metrics, start, close } = signals;
    return {
      intake,
      rpc,
      metrics,
      start,
      close,
      addRoutes: (app, server) => addSignalRoutes(app, server, host, signals),
    };
  },
};
