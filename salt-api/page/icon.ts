/** The picture of the status page: two halves, and what joins them. */
export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="none" stroke="#0b6e99" stroke-width="4" d="M4 28V12h8v16M20 28V12h8v16M8 12c0-10 16-10 16 0"/></svg>
`;
