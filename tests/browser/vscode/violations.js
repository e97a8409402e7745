// What the content policy refused, for the test to see.
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.refused.push(`${event.effectiveDirective} ${event.blockedURI}`);
});
