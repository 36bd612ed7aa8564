/** Extension of the bridge that runs execution plans of Murano. */

import path from 'node:path';
import { type BridgeExtensionModule, bridgeServices, sectionProblems } from '#heat-bridge';
import { MuranoCatalog, muranoEntries } from './murano-catalog.ts';
import { readMuranoOptions } from './murano-options.ts';
import { addMuranoRoutes } from './murano-routes.ts';
import { openMurano } from './open-murano.ts';
import { forgetStamps } from './plan-stamps.ts';

export const muranoExtension: BridgeExtensionModule = {
  entries: muranoEntries,
  check: ({ sections, config }) =>
    sectionProblems('bridge:murano', sections.murano, (it) =>
      readMuranoOptions(it, path.dirname(config.confFile)),
    ),
  open: async (host, { sections }) => {
    const { catalog, runner, entriesOf } = host.use(bridgeServices.commands);
    const murano = openMurano(host, {
      section: sections.murano,
      catalog: new MuranoCatalog(entriesOf(muranoEntries), catalog),
      commands: runner,
    });
    const enrolment = host.find(bridgeServices.enrolment);
    enrolment?.api.onRetire((guest) => forgetStamps(host, guest));
    return {
      addRoutes: (app, server) => addMuranoRoutes(app, server, host, murano),
      close: async () => {},
    };
  },
};
