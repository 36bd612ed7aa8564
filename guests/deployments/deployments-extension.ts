/** Extension of the bridge that runs software deployments. */

import { type BridgeExtensionModule, bridgeServices, sectionProblems } from '#heat-bridge';
import { guestServices } from '../services.ts';
import { codeEntries } from './code-catalog.ts';
import { parseDeploymentsOptions } from './deployments-options.ts';
import { openDeployments } from './open-deployments.ts';
import { addStackRoutes } from './stack-routes.ts';

export const deploymentsExtension: BridgeExtensionModule = {
  entries: codeEntries,
  check: ({ sections }) =>
    sectionProblems('bridge:deployments', sections.deployments, parseDeploymentsOptions),
  open: async (host, { sections }) => {
    const commands = host.use(bridgeServices.commands);
    const enrolment = host.find(bridgeServices.enrolment);
    const deployments = await openDeployments(host, {
      section: sections.deployments,
      code: commands.entriesOf(codeEntries),
      commands,
      enrolments: enrolment?.enrolments,
      signals: host.use(bridgeServices.signals),
    });
    host.provide(guestServices.stacks, deployments.api);
    enrolment?.api.onRetire((id) => deployments.dismiss(id));
    enrolment?.onRelease((id, owner) => deployments.dismiss(id, owner));
    const { rpc, metrics, start, close } = deployments;
    return {
      rpc,
      metrics,
      start,
      close,
      addRoutes: (app, server) => addStackRoutes(app, server, host, deployments),
    };
  },
};
