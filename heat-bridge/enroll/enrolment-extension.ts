/** Extension of the bridge that provides enrolment. */

import { masterServices } from '#master';
import type { BridgeExtensionModule } from '../bridge-extension.ts';
import { sectionProblems } from '../section-problems.ts';
import { bridgeServices } from '../services.ts';
import { parseEnrollOptions } from './enrolment-options.ts';
import { openEnrolment } from './open-enrolment.ts';

export const enrolmentExtension: BridgeExtensionModule = {
  check: ({ sections, config }) =>
    sectionProblems('bridge:enroll', sections.enroll, (it) => parseEnrollOptions(it, config)),
  open: async (host, { sections }) => {
    const enrolment = await openEnrolment(host, parseEnrollOptions(sections.enroll, host.config));
    host.provide(bridgeServices.enrolment, enrolment);
    host.use(masterServices.users).policy.projectOf = enrolment.expectedProjectOf;
    return enrolment.contribution;
  },
};
